#pragma once

#include <atomic>
#include <csignal>
#include <string>
#include <thread>

namespace fovea::app {

// While one lives, the first SIGINT, SIGTERM or SIGHUP asks to stop, the second ends the program at
// once. A thread waits for them, so that none ever interrupts another's work; one lives at a time.
class StopOnSignal {
 public:
  StopOnSignal();
  ~StopOnSignal();
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;
  const std::atomic<bool>* flag() const { return &asked_; }

 private:
  void wait();

  sigset_t signals_, mask_before_;
  std::atomic<bool> asked_{false}, over_{false};
  std::thread waiting_;
};

// Thrown where a signal stopped work that was saved: exit code 3.
struct Interrupted {
  std::string how_to_go_on;
};

}  // namespace fovea::app
