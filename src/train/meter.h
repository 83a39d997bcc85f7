#pragma once

#include <chrono>

namespace fovea::train {

inline double clock_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// What a run reports about its latest steps.
class Meter {
 public:
  void add(double total, double count, double seconds) {
    constexpr double kKeep = 0.95;  // some twenty steps count
    total_ = kKeep * total_ + total;
    count_ = kKeep * count_ + count;
    seconds_ = kKeep * seconds_ + seconds;
  }
  double loss() const { return count_ > 0 ? total_ / count_ : 0; }
  double units_per_second() const { return seconds_ > 0 ? count_ / seconds_ : 0; }

  // Once in a quarter of a second.
  bool due() {
    const double now = clock_seconds();
    if (now < reported_ + 0.25) return false;
    reported_ = now;
    return true;
  }

 private:
  double total_ = 0, count_ = 0, seconds_ = 0;
  double reported_ = clock_seconds();
};

}  // namespace fovea::train
