#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "fovea/runtime.h"

namespace fovea::app {

// How long the calling thread has stood in a queue for a CPU since it was last asked, in
// nanoseconds; 0 the first time, and where the system does not say.
int64_t queued_since_last();

// How many threads are worth using where others want the cores too: a thread that stands in the
// queue halfway through a task keeps everybody waiting. Whoever finds its threads in the queue for
// much of a while goes on with half of them for some time, and so on, then tries again.
class Crowding {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Nanoseconds that a thread stood in the queue; from any thread.
  void note(int64_t queued) { queued_.fetch_add(queued, std::memory_order_relaxed); }
  // Of a caller with work for `team` threads: how many to use.
  int allowed(int team, Time now);

 private:
  std::atomic<int64_t> queued_{0};
  Time since_{}, limited_until_{};
  std::chrono::milliseconds limited_for_{0};
  int limit_ = 0;  // 0: none
};

// An executor that hands its work to `own`, for fewer threads while others want the cores.
Executor considerate(Executor own);

}  // namespace fovea::app
