#include "report/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "report/label.h"

namespace fovea::report {
namespace {

// The least of 1, 2, 2.5, 5 · 10ⁿ that is no smaller.
double round_step(double step) {
  const double unit = std::pow(10.0, std::floor(std::log10(step)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
    if (factor * unit >= step * (1 - 1e-9)) return factor * unit;
  }
  return 10 * unit;
}

std::string power_of_ten(int exponent) {
  static constexpr const char* kDigits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string text = exponent < 0 ? "10⁻" : "10";
  for (const char digit : std::to_string(std::abs(exponent))) text += kDigits[digit - '0'];
  return text;
}

}  // namespace

double Axis::place(double value) const {
  if (log) return (std::log(value) - std::log(low)) / (std::log(high) - std::log(low));
  return (value - low) / (high - low);
}

Axis linear_axis(double low, double high, int about, Ends ends, Steps steps) {
  if (!(high > low)) {
    const double room = low == 0 ? 1 : std::abs(low) * 0.1;
    low -= room, high += room;
  }
  double step = round_step((high - low) / about);
  if (steps == Steps::whole && step != std::round(step)) step = step < 1 ? 1 : 5;
  Axis axis{low, high, false, {}};
  if (ends == Ends::round) {
    axis.low = std::floor(low / step + 1e-9) * step;
    axis.high = std::ceil(high / step - 1e-9) * step;
  }
  // An end that all but reaches a tick goes there.
  const double last = std::ceil(axis.high / step) * step;
  if (last - axis.high < 0.02 * (axis.high - axis.low)) axis.high = last;
  const double first = std::ceil(axis.low / step - 1e-9);
  for (int i = 0; (first + i) * step <= axis.high + 1e-9 * step; ++i) {
    axis.ticks.push_back((first + i) * step);
  }
  return axis;
}

Axis log_axis(double low, double high, int about) {
  double from = std::log10(low), to = std::log10(high);
  const double room = 0.04 * std::max(to - from, 0.1);
  from = std::max(from - room, -307.0), to = std::min(to + room, 308.0);
  Axis axis{std::pow(10.0, from), std::pow(10.0, to), true, {}};
  const int decades = static_cast<int>(std::floor(to) - std::ceil(from));
  const int every = std::max(1, (decades + about) / about);
  for (int n = static_cast<int>(std::floor(from)); n <= to; ++n) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double tick = factor * std::pow(10.0, n);
      if (factor != 1.0 ? to - from >= 2.5 : n % every != 0) continue;
      if (tick >= axis.low && tick <= axis.high) axis.ticks.push_back(tick);
    }
  }
  if (axis.ticks.size() < 3) {
    axis.ticks = linear_axis(axis.low, axis.high, about, Ends::tight).ticks;
  }
  return axis;
}

std::string Axis::label(double tick) const {
  const double size = std::abs(tick),
               largest = log ? size : std::max(std::abs(low), std::abs(high));
  const double exponent = std::log10(size);
  const bool power = tick > 0 && std::abs(exponent - std::round(exponent)) < 1e-9;
  if (log && power && (size < 0.999e-3 || size > 1.001e4)) {
    return power_of_ten(static_cast<int>(std::lround(exponent)));
  }
  if (size == 0 || largest >= 1e9) return number(tick);
  if (largest >= 2e6) return number(tick / 1e6) + "M";
  if (largest >= 2e4) return number(tick / 1e3) + "k";
  return number(tick);
}

}  // namespace fovea::report
