#pragma once

#include <cstdint>

namespace fovea::kernels {

inline constexpr int64_t kMostVectors = 4;

// y[v] = W·x[v] + bias + addend[v] for a few vectors; bias and addend may be null. As long as
// reading W once takes.
struct Gemv {
  int64_t vectors = 1;  // at most kMostVectors
  int64_t rows = 0, cols = 0;
  const float* w = nullptr;
  int64_t w_row = 0;         // from a row to the next; columns lie next to each other
  const float* x = nullptr;  // [vectors, cols]
  const float* bias = nullptr;
  const float* addend = nullptr;  // [vectors, rows]
  float* y = nullptr;             // [vectors, rows]
};
void gemv(const Gemv&);

}  // namespace fovea::kernels
