#pragma once

#include <cstdint>

#include "core/random.h"

namespace fovea::kernels {

void count_up(int64_t n, int64_t* y);                        // 0, 1, 2, …
void uniform(RandomKey, int64_t n, float* y);                // [0, 1), 24 bits
void normal(RandomKey u, RandomKey v, int64_t n, float* y);  // Box–Muller: √(−2 ln u)·cos(2π v)

// y = x, element by element.
template <class From, class To>
void convert(int64_t n, const From* x, To* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<To>(x[i]);
}

// y = x ≠ 0, as 0 or 1; y may be x.
template <class From>
void truth_of(int64_t n, const From* x, uint8_t* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] != From(0);
}

}  // namespace fovea::kernels
