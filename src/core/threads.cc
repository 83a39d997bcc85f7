#include "core/threads.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <exception>
#include <string>
#include <utility>

#include "core/pool.h"
#include "fovea/error.h"

namespace fovea {
namespace {

constexpr int kMostThreads = 4096;

std::atomic<int> chosen_threads{0};
std::atomic<const Executor*> of_program{nullptr};
thread_local bool inside = false;

int own_threads() {
  int n = chosen_threads.load(std::memory_order_relaxed);
  if (n == 0) {
    n = threads_by_default();
    chosen_threads.store(n, std::memory_order_relaxed);
  }
  return n;
}

// Whoever comes takes the next; where the pool serves another, the caller takes all.
void run_on_pool(int64_t n, const std::function<void(int64_t)>& body) {
  std::atomic<int64_t> next{0};
  const auto share = [&](int) {
    for (int64_t i = next.fetch_add(1); i < n; i = next.fetch_add(1)) body(i);
  };
  if (!Pool::instance().run(static_cast<int>(std::min<int64_t>(n, kMostThreads)), share)) share(0);
}

void run_by_executor(int64_t n, const std::function<void(int64_t)>& body) {
  const Executor* executor = of_program.load(std::memory_order_acquire);
  executor != nullptr ? executor->run(n, body) : run_on_pool(n, body);
}

// One parallel_for at work: body(i, place) for i in [0, n).
template <class Body>
struct Region {
  int64_t n;
  const Body& body;
  std::atomic<int64_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error;  // written by the one who set `failed`

  void work(int place) {
    inside = true;
    try {
      while (!failed.load(std::memory_order_relaxed)) {
        const int64_t i = next.fetch_add(1, std::memory_order_relaxed);
        if (i >= n) break;
        body(i, place);
      }
    } catch (...) {
      if (!failed.exchange(true)) error = std::current_exception();
    }
    inside = false;
  }
};

template <class Body>
void run_region(int size, int64_t n, const Body& body) {
  const int team = static_cast<int>(std::min<int64_t>(n, inside ? 1 : size));
  if (team <= 1) {
    for (int64_t i = 0; i < n; ++i) body(i, 0);
    return;
  }
  Region<Body> region{n, body};
  run_by_executor(team, [&](int64_t place) { region.work(static_cast<int>(place)); });
  if (region.error) std::rethrow_exception(region.error);
}

// Several i to a task, where one costs little.
template <class Body>
void run_region(int size, int64_t n, int64_t cost, const Body& body) {
  constexpr int64_t kTask = 1 << 14;  // some microseconds, as long as waking a thread takes
  const int64_t each = std::max<int64_t>(1, kTask / std::max<int64_t>(cost, 1));
  run_region(size, (n + each - 1) / each, [&](int64_t task, int place) {
    const int64_t end = std::min(n, (task + 1) * each);
    for (int64_t i = task * each; i < end; ++i) body(i, place);
  });
}

}  // namespace

int threads() {
  const Executor* executor = of_program.load(std::memory_order_acquire);
  return executor != nullptr ? std::clamp(executor->threads(), 1, kMostThreads) : own_threads();
}

void set_threads(int n) {
  if (n < 1 || n > kMostThreads) {
    throw Error("set_threads", "n must be from 1 to 4096, found " + std::to_string(n));
  }
  chosen_threads.store(n, std::memory_order_relaxed);
}

void set_executor(Executor executor) {
  if (static_cast<bool>(executor.threads) != static_cast<bool>(executor.run)) {
    throw Error("set_executor", "expected `threads` and `run`, or neither; found one of them");
  }
  const Executor* next = executor.run ? new Executor(std::move(executor)) : nullptr;
  delete of_program.exchange(next, std::memory_order_acq_rel);
}

Executor own_executor() { return {own_threads, run_on_pool}; }

void parallel_for(int64_t n, const std::function<void(int64_t)>& body) {
  run_region(threads(), n, [&](int64_t i, int) { body(i); });
}

void parallel_for(int64_t n, int64_t cost, const std::function<void(int64_t)>& body) {
  run_region(threads(), n, cost, [&](int64_t i, int) { body(i); });
}

Crew::Crew() : size_(inside ? 1 : threads()) {}

// Of a crew that others are at work with, two bodies would have place 0.
void Crew::run(int64_t n, const Body& body) const {
  assert(!inside || size_ == 1);
  run_region(size_, n, body);
}

void Crew::run(int64_t n, int64_t cost, const Body& body) const {
  assert(!inside || size_ == 1);
  run_region(size_, n, cost, body);
}

}  // namespace fovea
