#include "core/pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>

namespace fovea {
namespace {

// door_: [number:32][team:15][open:1][inside:16]
constexpr uint64_t kInside = 0xffff, kOpen = 1 << 16;
constexpr int kTeamShift = 17, kNumberShift = 32;
constexpr uint64_t kLargestTeam = (1 << 15) - 1;

uint64_t inside_of(uint64_t door) { return door & kInside; }
bool is_open(uint64_t door) { return (door & kOpen) != 0; }
int team_of(uint64_t door) { return static_cast<int>((door >> kTeamShift) & kLargestTeam); }
uint32_t number_of(uint64_t door) { return static_cast<uint32_t>(door >> kNumberShift); }

constexpr auto kWorkerSpins = std::chrono::microseconds(40);
constexpr auto kCallerSpins = std::chrono::microseconds(20);

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// True as soon as done() is, false when the time is over.
template <class Done>
bool spin(std::chrono::microseconds time, const Done& done) {
  const auto end = std::chrono::steady_clock::now() + time;
  do {
    for (int i = 0; i < 16; ++i) {
      if (done()) return true;
      pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return done();
}

constexpr auto kBetweenMoves = std::chrono::milliseconds(5);

// Moves the calling thread off a CPU, once; where it runs later is the scheduler's choice again.
void leave_cpu(int cpu) {
  cpu_set_t all;
  if (pthread_getaffinity_np(pthread_self(), sizeof all, &all) != 0) return;
  cpu_set_t others = all;
  CPU_CLR(static_cast<size_t>(cpu), &others);
  if (CPU_COUNT(&others) == 0) return;
  pthread_setaffinity_np(pthread_self(), sizeof others, &others);
  pthread_setaffinity_np(pthread_self(), sizeof all, &all);
}

std::atomic<Pool*> the_pool{nullptr};

// A child has none of its parent's threads: it begins anew.
void forget_pool() { the_pool.store(nullptr, std::memory_order_relaxed); }

// Signals go to the program's own threads.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

// Never destroyed: its threads may sleep until the process ends.
Pool& Pool::instance() {
  static const int registered = pthread_atfork(nullptr, nullptr, forget_pool);
  static_cast<void>(registered);
  Pool* pool = the_pool.load(std::memory_order_acquire);
  if (pool != nullptr) return *pool;
  Pool* made = new Pool;
  if (the_pool.compare_exchange_strong(pool, made, std::memory_order_acq_rel)) return *made;
  delete made;
  return *pool;
}

// As many as the system gives.
void Pool::grow(int workers) {
  const std::lock_guard lock(growing_);
  const NoSignals blocked;
  try {
    while (workers_.load() < workers) {
      const int index = workers_.load() + 1;
      std::thread([this, index] { serve(index); }).detach();
      workers_.store(index);
    }
  } catch (const std::system_error&) {
  }
}

void Pool::serve(int index) {
  uint32_t seen = 0;
  std::chrono::steady_clock::time_point moved{};
  while (true) {
    const uint32_t bell = bell_.load(std::memory_order_acquire);
    if (enter(index, seen)) {
      const int cpu = caller_cpu_.load(std::memory_order_relaxed);
      if (cpu >= 0 && sched_getcpu() == cpu) {
        const auto now = std::chrono::steady_clock::now();
        if (now - moved > kBetweenMoves) {
          leave_cpu(cpu);
          moved = now;
        }
      }
      (*work_)(index);
      leave();
      continue;
    }
    const auto called = [&] { return bell_.load(std::memory_order_acquire) != bell; };
    if (!spin(kWorkerSpins, called)) bell_.wait(bell, std::memory_order_acquire);
  }
}

// Once for each number.
bool Pool::enter(int index, uint32_t& seen) {
  uint64_t door = door_.load(std::memory_order_acquire);
  while (is_open(door) && number_of(door) != seen && index < team_of(door)) {
    if (door_.compare_exchange_weak(door, door + 1, std::memory_order_acq_rel,
                                    std::memory_order_acquire)) {
      seen = number_of(door);
      return true;
    }
  }
  return false;
}

void Pool::leave() {
  const uint64_t before = door_.fetch_sub(1, std::memory_order_acq_rel);
  if (is_open(before) || inside_of(before) != 1) return;
  last_out_.fetch_add(1, std::memory_order_release);
  last_out_.notify_one();
}

void Pool::close_and_wait() {
  const uint64_t before = door_.fetch_and(~kOpen, std::memory_order_acq_rel);
  if (inside_of(before) == 0) return;
  const auto empty = [&] { return inside_of(door_.load(std::memory_order_acquire)) == 0; };
  if (spin(kCallerSpins, empty)) return;
  while (true) {
    const uint32_t out = last_out_.load(std::memory_order_acquire);
    if (empty()) return;
    last_out_.wait(out, std::memory_order_acquire);
  }
}

bool Pool::run(int team, const std::function<void(int)>& work) {
  if (taken_.exchange(true, std::memory_order_acquire)) return false;
  team = static_cast<int>(std::min<uint64_t>(static_cast<uint64_t>(team), kLargestTeam));
  if (workers_.load(std::memory_order_relaxed) < team - 1) grow(team - 1);
  work_ = &work;
  caller_cpu_.store(sched_getcpu(), std::memory_order_relaxed);
  const uint64_t number = number_of(door_.load(std::memory_order_relaxed)) + uint64_t{1};
  door_.store(
      (number & 0xffffffff) << kNumberShift | static_cast<uint64_t>(team) << kTeamShift | kOpen,
      std::memory_order_release);
  bell_.fetch_add(1, std::memory_order_release);
  bell_.notify_all();
  work(0);
  close_and_wait();
  taken_.store(false, std::memory_order_release);
  return true;
}

}  // namespace fovea
