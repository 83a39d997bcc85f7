#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/numbers.h"

// Matrix products by cuBLASLt, which is opened where it is: nothing of it is needed to build. What
// is declared here is what of its C interface is used.
namespace fovea::cuda {

// D = alpha·op(A)·op(B) + bias + C in column-major order: D is m×n, the bias [m] or null, C null or
// as large as D. A and B are of one type, D, C and the bias of another; sums are float32.
struct ColumnProduct {
  int64_t m = 0, n = 0, k = 0;
  bool a_transposed = false, b_transposed = false;
  const void *a = nullptr, *b = nullptr, *c = nullptr, *bias = nullptr;
  void* d = nullptr;
  kernels::Number type = kernels::Number::f32, d_type = kernels::Number::f32;  // or bf16
  int64_t lda = 0, ldb = 0, ldc = 0, ldd = 0;
  float alpha = 1.0f;
  int64_t batch = 1, a_step = 0, b_step = 0, d_step = 0;
};

// Whether cuBLASLt is here. FOVEA_CUDA_BLAS=own says no.
bool has_cublas();
// False where it knows no way.
bool multiply_by_cublas(const ColumnProduct&);

}  // namespace fovea::cuda
