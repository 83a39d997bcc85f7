// float32 on tensor cores: x = high + low, both tf32, and
//   a·b ≈ high·high + high·low + low·high, off by 2^-21 of it.
// Infinities give NaN. The cores truncate their sums, so no sum in them is long.
#pragma once

#include "cuda/device.cuh"

namespace fovea::cuda {

// c[16×8] += a[16×8]·b[8×8], tf32 into float.
__device__ __forceinline__ void multiply_tf32(float (&c)[4], const uint32_t (&a)[4],
                                              const uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Of the low part the tensor cores read as much as tf32 has.
__device__ __forceinline__ void split_tf32(float x, uint32_t& high, uint32_t& low) {
  high = (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
  low = __float_as_uint(x - __uint_as_float(high));
}

}  // namespace fovea::cuda
