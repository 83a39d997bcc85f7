#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

// Sums and maxima of rows, in an order of their own that does not depend on the processor: sixteen
// in turn, so that compilers make vectors of them.
namespace fovea {

// from + fold(0), fold(1), … fold(n − 1), by `join`
template <class Fold, class Join>
float fold_row(int64_t n, float from, const Fold& fold, const Join& join) {
  constexpr int64_t kTurns = 16;
  std::array<float, kTurns> parts;
  parts.fill(from);
  int64_t j = 0;
  for (; j + kTurns <= n; j += kTurns) {
    for (int64_t t = 0; t < kTurns; ++t) {
      float& part = parts[static_cast<size_t>(t)];
      part = join(part, fold(j + t));
    }
  }
  for (; j < n; ++j) parts[0] = join(parts[0], fold(j));
  for (size_t t = 1; t < kTurns; ++t) parts[0] = join(parts[0], parts[t]);
  return parts[0];
}

inline float row_sum(int64_t n, const float* x) {
  return fold_row(
      n, 0.0f, [&](int64_t j) { return x[j]; }, [](float a, float b) { return a + b; });
}
inline float row_dot(int64_t n, const float* x, const float* y) {
  return fold_row(
      n, 0.0f, [&](int64_t j) { return x[j] * y[j]; }, [](float a, float b) { return a + b; });
}
inline float row_max(int64_t n, const float* x) {
  return fold_row(
      n, -std::numeric_limits<float>::infinity(), [&](int64_t j) { return x[j]; },
      [](float a, float b) { return a < b ? b : a; });
}

}  // namespace fovea
