#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

// Sums of rows, in an order of their own that does not depend on the processor: sixteen in turn, so
// that compilers make vectors of them.
namespace fovea {

// term(0) + term(1) + … + term(n − 1)
template <class Term>
float sum_of_row(int64_t n, const Term& term) {
  constexpr int64_t kTurns = 16;
  std::array<float, kTurns> parts{};
  int64_t j = 0;
  for (; j + kTurns <= n; j += kTurns) {
    for (int64_t t = 0; t < kTurns; ++t) parts[static_cast<size_t>(t)] += term(j + t);
  }
  for (; j < n; ++j) parts[0] += term(j);
  for (size_t t = 1; t < kTurns; ++t) parts[0] += parts[t];
  return parts[0];
}

inline float row_sum(int64_t n, const float* x) {
  return sum_of_row(n, [&](int64_t j) { return x[j]; });
}
inline float row_dot(int64_t n, const float* x, const float* y) {
  return sum_of_row(n, [&](int64_t j) { return x[j] * y[j]; });
}

}  // namespace fovea
