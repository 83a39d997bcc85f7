#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "core/random.h"

namespace fovea::image {

// The random numbers of one picture, in the order they are asked for.
class RandomNumbers {
 public:
  RandomNumbers(uint64_t seed, uint64_t picture, uint64_t kind)
      : key_(random_key(seed, Purpose::data, picture, kind)) {}

  int64_t below(int64_t n) {
    return static_cast<int64_t>((bits() * static_cast<uint64_t>(n)) >> 32);
  }
  double between(double low, double high) { return low + (high - low) * unit_open(next()); }
  double normal() {
    const double radius = std::sqrt(-2 * std::log(unit_open(next())));
    return radius * std::cos(2 * std::numbers::pi * unit_open(next()));
  }

 private:
  uint32_t next() { return bits32(key_, at_++); }
  uint64_t bits() { return next(); }

  RandomKey key_;
  uint64_t at_ = 0;
};

}  // namespace fovea::image
