#include "core/threads.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <string>

#include "core/pool.h"
#include "fovea/error.h"

namespace fovea {
namespace {

std::atomic<int> chosen_threads{0};
thread_local bool inside = false;
thread_local int index_here = 0;

// One parallel_for at work.
struct Region {
  int64_t n;
  const std::function<void(int64_t)>& body;
  std::atomic<int64_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error;  // written by the one who set `failed`

  void work(int index) {
    inside = true;
    index_here = index;
    try {
      while (!failed.load(std::memory_order_relaxed)) {
        const int64_t i = next.fetch_add(1, std::memory_order_relaxed);
        if (i >= n) break;
        body(i);
      }
    } catch (...) {
      if (!failed.exchange(true)) error = std::current_exception();
    }
    inside = false;
    index_here = 0;
  }
};

}  // namespace

int threads() {
  int n = chosen_threads.load(std::memory_order_relaxed);
  if (n == 0) {
    n = threads_by_default();
    chosen_threads.store(n, std::memory_order_relaxed);
  }
  return n;
}

void set_threads(int n) {
  if (n < 1 || n > 4096) {
    throw Error("set_threads", "n must be from 1 to 4096, found " + std::to_string(n));
  }
  chosen_threads.store(n, std::memory_order_relaxed);
}

int thread_index() { return index_here; }

void parallel_for(int64_t n, const std::function<void(int64_t)>& body) {
  const int team = static_cast<int>(std::min<int64_t>(n, inside ? 1 : threads()));
  Region region{n, body};
  const auto work = [&](int index) { region.work(index); };
  if (team <= 1 || !Pool::instance().run(team, work)) {
    for (int64_t i = 0; i < n; ++i) body(i);
    return;
  }
  if (region.error) std::rethrow_exception(region.error);
}

void parallel_for(int64_t n, int64_t cost, const std::function<void(int64_t)>& body) {
  constexpr int64_t kTask = 1 << 14;  // some microseconds, as long as waking a thread takes
  const int64_t each = std::max<int64_t>(1, kTask / std::max<int64_t>(cost, 1));
  parallel_for((n + each - 1) / each, [&](int64_t task) {
    const int64_t end = std::min(n, (task + 1) * each);
    for (int64_t i = task * each; i < end; ++i) body(i);
  });
}

}  // namespace fovea
