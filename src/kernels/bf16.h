#pragma once

#include <cstdint>

#include "kernels/cross_entropy.h"
#include "kernels/dropout.h"
#include "kernels/numbers.h"
#include "kernels/rowwise.h"

// What a device computes of bf16: numbers in and out have 16 bits, what is between them, sums,
// statistics and losses are float32. Formulas are those of the headers above.
namespace fovea::kernels {

// Rows of n numbers, `row` numbers from one to the next.
struct Bf16Rows {
  int64_t count = 0, n = 0, row = 0;
};

// C = A·B + bias. A is m×k and B k×n, by row and column strides, one of the two 1; the columns of C
// are next to each other.
struct Bf16Gemm {
  int64_t m = 0, n = 0, k = 0;
  const Bf16* a = nullptr;
  int64_t a_row = 0, a_col = 1;
  const Bf16* b = nullptr;
  int64_t b_row = 0, b_col = 1;
  void* c = nullptr;
  Number c_type = Number::bf16;  // or f32
  int64_t c_row = 0;
  const Bf16* bias = nullptr;  // [n], with a C of bf16; null: 0
};

struct Bf16Normed {
  const Bf16* x;
  Moments at;
  const Bf16* dy;
};
struct Bf16NormGradients {
  Bf16* x;
  float* w = nullptr;
  float* b = nullptr;
};

struct Bf16Kernels {
  void (*narrow)(int64_t n, const float* x, Bf16* y) = nullptr;  // the nearest, of two the even one
  void (*widen)(int64_t n, const Bf16* x, float* y) = nullptr;
  void (*gemm)(const Bf16Gemm&) = nullptr;
  void (*sum_rows)(Bf16Rows, const Bf16* x, float* sums) = nullptr;  // sums[i] = Σ_r x[r,i]
  void (*norm_rows)(Rows, const Bf16* x, const Affine&, Bf16* y, Moments) = nullptr;
  void (*d_norm_rows)(Rows, const Bf16Normed&, const float* w, const Bf16NormGradients&) = nullptr;
  void (*cross_entropy_rows)(Bf16Rows, const Targets&, const Bf16* x, LogSums,
                             float* loss) = nullptr;
  // dx has the rows of x, and is 0 between them.
  void (*d_cross_entropy_rows)(Bf16Rows, const Targets&, const LossGradient&, const Bf16* x,
                               LogSums, Bf16* dx) = nullptr;
  void (*dropout)(int64_t n, const Bf16* x, const Drop&, Bf16* y) = nullptr;
};

}  // namespace fovea::kernels
