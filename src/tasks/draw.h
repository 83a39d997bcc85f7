#pragma once

#include <cstdint>
#include <span>

#include "core/random.h"

namespace fovea::tasks {

// The numbers of one example, in the order they are asked for.
class Draw {
 public:
  Draw(uint64_t seed, uint64_t example, uint64_t data_set)
      : key_(random_key(seed, Purpose::data, example, data_set)) {}

  int64_t below(int64_t n) {
    return static_cast<int64_t>(
        (static_cast<uint64_t>(bits32(key_, next_++)) * static_cast<uint64_t>(n)) >> 32);
  }
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  bool chance(double p) { return unit_open(bits32(key_, next_++)) < p; }

  template <typename T>
  const T& pick(std::span<const T> from) {
    return from[static_cast<size_t>(below(static_cast<int64_t>(from.size())))];
  }

 private:
  RandomKey key_;
  uint64_t next_ = 0;
};

}  // namespace fovea::tasks
