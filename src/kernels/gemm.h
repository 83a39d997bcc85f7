#pragma once

#include <cstdint>
#include <span>

#include "kernels/numbers.h"

namespace fovea::kernels {

// C = alpha·A·B + bias + plus, a batch of them. A is m×k and B k×n, by row and column strides (any;
// free of copies where one of the two is 1); the columns of C and of what is added are next to each
// other.
struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  int64_t a_row = 0, a_col = 1;
  const void* b = nullptr;  // of b_type
  int64_t b_row = 0, b_col = 1;
  Number b_type = Number::f32;
  const float* b_scale = nullptr;  // B[k][j] counts b_scale[k·scale_row + j·scale_col] times
  int64_t scale_row = 0, scale_col = 0;  // one of them is 0; a batch has the same for all
  float* c = nullptr;
  int64_t c_row = 0;
  float alpha = 1.0f;
  const float* bias = nullptr;  // [n], the same for every row; null: 0
  const float* plus = nullptr;  // m×n, of a batch the same for all; may be c. null: 0
  int64_t plus_row = 0;
  int64_t batch = 1;
  const int64_t* a_at = nullptr;  // offsets by batch; null: all 0
  const int64_t* b_at = nullptr;
  int64_t c_step = 0;
};

// Bit-equal at any thread count: sums are cut by shape alone. Many rows against i8 or bf16 may be
// rounded to as many bits: gemm-bytes-inl.h and gemm-pairs-inl.h have what that costs.
void gemm(const Gemm&);

// An implementation. gemm() takes the first of the list, best first, that can do the product: a
// matter of sizes, strides and types, and of the processor. Another one is another row.
struct GemmWay {
  const char* name;
  bool (*can)(const Gemm&);
  void (*run)(const Gemm&);  // m, n and batch are not 0
};
std::span<const GemmWay> gemm_ways();
const GemmWay& gemm_way(const Gemm&);

// Few rows against columns of B that lie in memory.
inline bool few_rows(const Gemm& g) {
  return g.m < 20 && g.b_row == 1 && g.a_col == 1 && g.scale_row == 0;
}

}  // namespace fovea::kernels
