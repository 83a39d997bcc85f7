#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>

namespace fovea::train {

inline double clock_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct StepTaken {
  double total = 0, count = 0;  // the loss, summed over so many units
  double share = 0;             // of all the work
  double seconds = 0;
};

// What a run reports about its latest steps: some twenty, or five seconds' where that is more.
class Meter {
 public:
  void add(const StepTaken& s) {
    const double keep = std::max(0.95, std::exp(-s.seconds / 5));
    total_ = keep * total_ + s.total;
    count_ = keep * count_ + s.count;
    share_ = keep * share_ + s.share;
    seconds_ = keep * seconds_ + s.seconds;
    shares_ += s.share;
    in_steps_ += s.seconds;
  }
  double loss() const { return count_ > 0 ? total_ / count_ : 0; }
  double units_per_second() const { return seconds_ > 0 ? count_ / seconds_ : 0; }

  // At the latest steps' speed, and with as many pauses (validations, saves) as there were so far;
  // −1 when there is nothing to go by.
  double seconds_left(double share_left) const {
    if (share_ <= 0) return -1;
    const double pauses = clock_seconds() - began_ - in_steps_;
    return share_left * (seconds_ / share_ + std::max(pauses, 0.0) / shares_);
  }

  // Once in a quarter of a second.
  bool due() {
    const double now = clock_seconds();
    if (now < reported_ + 0.25) return false;
    reported_ = now;
    return true;
  }

 private:
  double total_ = 0, count_ = 0, share_ = 0, seconds_ = 0;  // of the latest steps
  double shares_ = 0, in_steps_ = 0;                        // of all since it began
  double began_ = clock_seconds(), reported_ = began_;
};

}  // namespace fovea::train
