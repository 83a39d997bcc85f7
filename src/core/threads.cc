#include "core/threads.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <string>

#include "fovea/error.h"

namespace fovea {
namespace {

// One parallel_for at work. Workers find it through `current` rather than through a captured
// variable, and leave through `left`: acquire and release on these two order everything the
// caller and the workers do, without relying on the OpenMP runtime's own barriers, which a race
// detector does not see.
struct Region {
  int64_t n;
  const std::function<void(int64_t)>& body;
  std::atomic<int64_t> next{0};
  std::atomic<int> left{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error;  // written by the one who set `failed`
};

std::atomic<Region*> current{nullptr};
std::atomic<bool> busy{false};  // a second caller meanwhile works alone: the cores are taken
std::atomic<int> chosen_threads{0};
thread_local bool inside = false;
thread_local int index_here = 0;

int threads_by_default() {
  const char* text = std::getenv("FOVEA_THREADS");
  if (text == nullptr || *text == '\0') return std::max(1, omp_get_num_procs());
  char* end = nullptr;
  const long n = std::strtol(text, &end, 10);
  if (*end != '\0' || n < 1 || n > 4096) {
    throw Error("threads",
                "FOVEA_THREADS must be a number from 1 to 4096, found '" + std::string(text) + "'");
  }
  return static_cast<int>(n);
}

void work(Region& region, int index) {
  inside = true;
  index_here = index;
  try {
    while (!region.failed.load(std::memory_order_relaxed)) {
      const int64_t i = region.next.fetch_add(1, std::memory_order_relaxed);
      if (i >= region.n) break;
      region.body(i);
    }
  } catch (...) {
    if (!region.failed.exchange(true)) region.error = std::current_exception();
  }
  inside = false;
  index_here = 0;
}

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
  if (team <= 1 || busy.exchange(true, std::memory_order_acquire)) {
    for (int64_t i = 0; i < n; ++i) body(i);
    return;
  }
  Region region{n, body};
  current.store(&region, std::memory_order_release);
#pragma omp parallel num_threads(team)
  {
    Region& shared = *current.load(std::memory_order_acquire);
    work(shared, omp_get_thread_num());
    shared.left.fetch_add(1, std::memory_order_acq_rel);
  }
  region.left.load(std::memory_order_acquire);
  current.store(nullptr, std::memory_order_relaxed);
  busy.store(false, std::memory_order_release);
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

OneThread::OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
OneThread::~OneThread() { omp_set_num_threads(before_); }

}  // namespace fovea
