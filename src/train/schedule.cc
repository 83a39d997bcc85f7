#include <algorithm>
#include <cmath>
#include <numbers>

#include "fovea/train.h"

namespace fovea::train {
namespace {

// The share of the rate that decay leaves, warm-up aside.
double share_left(const ScheduleConfig& c, int64_t step, double progress, int64_t reductions) {
  const double floor = c.floor;
  switch (c.decay) {
    case Decay::constant:
      return 1;
    case Decay::cosine:  // from 1 to the floor along half a wave
      return floor +
             (1 - floor) * 0.5 * (1 + std::cos(std::numbers::pi * std::clamp(progress, 0.0, 1.0)));
    case Decay::inverse_root: {  // √(warmup/step), from the end of the warm-up on
      const double warmup = static_cast<double>(std::max<int64_t>(c.warmup, 1));
      return std::max(floor, std::sqrt(warmup / std::max(static_cast<double>(step), warmup)));
    }
    case Decay::plateau:
      return std::max(floor, std::pow(static_cast<double>(c.factor), reductions));
  }
  return 1;
}

}  // namespace

float rate_at(const ScheduleConfig& c, int64_t step, double progress, int64_t reductions) {
  const double grown =
      step < c.warmup ? static_cast<double>(step) / static_cast<double>(c.warmup) : 1.0;
  return static_cast<float>(c.rate * grown * share_left(c, step, progress, reductions));
}

}  // namespace fovea::train
