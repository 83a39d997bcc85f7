// What kernels of bf16 share: eight numbers at a time.
#pragma once

#include "cuda/device.cuh"
#include "cuda/loops.cuh"
#include "kernels/bf16.h"

namespace fovea::cuda {

inline const bf16* numbers(const kernels::Bf16* x) { return reinterpret_cast<const bf16*>(x); }
inline bf16* numbers(kernels::Bf16* x) { return reinterpret_cast<bf16*>(x); }

// Whether sixteen bytes can be read there at once.
inline bool whole_from(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

// Eight numbers of a row from column c on; 0 beyond n. `whole`: rows begin at 16 bytes.
__device__ __forceinline__ void load_columns(const bf16* row, int64_t c, int64_t n, bool whole,
                                             float (&x)[8]) {
  if (whole && c + 8 <= n) return widen8(*reinterpret_cast<const uint4*>(row + c), x);
#pragma unroll
  for (int i = 0; i < 8; ++i) x[i] = c + i < n ? __bfloat162float(row[c + i]) : 0.0f;
}
__device__ __forceinline__ void store_columns(bf16* row, int64_t c, int64_t n, bool whole,
                                              const float (&x)[8]) {
  if (whole && c + 8 <= n) {
    *reinterpret_cast<uint4*>(row + c) = narrow8(x);
    return;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (c + i < n) row[c + i] = __float2bfloat16_rn(x[i]);
  }
}

}  // namespace fovea::cuda
