#pragma once

#include <cstdint>

#include "core/random.h"

namespace fovea::kernels {

// y[i] = bits32(key, i) < threshold ? 0 : x[i]·scale, i in [0, n).
struct Drop {
  RandomKey key;
  uint64_t threshold = 0;  // probability·2³²
  float scale = 1.0f;
};
void dropout(int64_t n, const float* x, const Drop&, float* y);

}  // namespace fovea::kernels
