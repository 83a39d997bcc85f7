#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace fovea {

// How long the calling thread has stood in a queue for a CPU since it was last asked, in
// nanoseconds; 0 the first time, and where the system does not say.
int64_t queued_since_last();

// How many threads are worth using where others want the cores too: threads that stand in the
// queue while one of theirs is halfway through a task keep everybody waiting. Whoever finds its
// threads in the queue for much of a while goes on alone for some time, then tries again.
class Crowding {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Nanoseconds that a thread stood in the queue; from any thread.
  void note(int64_t queued) { queued_.fetch_add(queued, std::memory_order_relaxed); }
  // Of a caller with work for `team` threads: whether to do it alone.
  bool alone(int team, Time now);

 private:
  std::atomic<int64_t> queued_{0};
  Time since_{}, alone_until_{};
  std::chrono::milliseconds alone_for_{0};
  bool alone_ = false;
};

}  // namespace fovea
