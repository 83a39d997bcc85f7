#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fovea::report {

// A range of numbers laid along a line, with round numbers to mark on it.
struct Axis {
  double low = 0, high = 1;
  bool log = false;
  std::vector<double> ticks;

  double place(double value) const;      // 0 at low, 1 at high
  std::string label(double tick) const;  // 0.05, 20k, 10⁻⁶
};

enum class Ends : uint8_t { tight, round };  // the range itself, or out to the next ticks
enum class Steps : uint8_t { any, whole };   // whole: for what is counted
Axis linear_axis(double low, double high, int about, Ends, Steps = Steps::any);
Axis log_axis(double low, double high, int about);

}  // namespace fovea::report
