// The additive score without tanh, for both paths.
//
//   Σ u·tanh(q+k) = Σu − 2 Σ u/(1 + e^{2q}·e^{2k}).  With c = most/u, X = c·e^{2q}, Y = e^{2k} and
//   x = X·Y + c, a term is one multiply-add and one reciprocal: score = offset + factor·Σ 1/x,
//   offset = Σu, factor = −2·most, where most = max |u|.
//
// A u below 2⁻³² of the largest counts as that. Features past the width have X = 0 and a constant
// c, which the offset takes back. |q|, |k| > 40 count as 40: that differs from tanh(q+k) only where
// they nearly cancel from there.
#pragma once

#include "cuda/rows.cuh"

namespace fovea::cuda {

constexpr float kFarthest = 40.0f;    // of q and of k
constexpr float kPadding = 65536.0f;  // c past the width: four of them may be multiplied

__device__ __forceinline__ float4 load4(const float* row, int64_t stride, int first, int n,
                                        bool whole) {
  if (whole && first + 3 < n) return __ldg(reinterpret_cast<const float4*>(row + first));
  const auto at = [&](int i) { return first + i < n ? row[(first + i) * stride] : 0.0f; };
  return {at(0), at(1), at(2), at(3)};
}
// Whether rows can be read four numbers at a time.
template <class T>
__host__ __device__ inline bool whole_rows(const View<T>& v) {
  return v.c == 1 && v.r % 4 == 0 && v.h % 4 == 0 && v.b % 4 == 0 &&
         reinterpret_cast<uintptr_t>(v.data) % 16 == 0;
}

// u·scale/T no smaller than 2⁻³² of the largest.
__device__ __forceinline__ float counted(float u, float most) {
  return fabsf(u) < most * 0x1p-32f ? copysignf(most * 0x1p-32f, u) : u;
}

// max |u|·scale/T over the block, of what is finite; 1 where all is 0.
__device__ inline float largest_weight(const AttentionProblem& p, float* shared) {
  float most = 0.0f;
  for (int a = threadIdx.x; a < p.D; a += blockDim.x) {
    const float u = p.u[a] * (p.scale / p.temperature);
    most = finite(u) ? fmaxf(most, fabsf(u)) : most;
  }
  most = warp_max(most);
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = most;
  __syncthreads();
  for (int w = 0; w < static_cast<int>(blockDim.x) / kWarp; ++w) most = fmaxf(most, shared[w]);
  return most == 0.0f ? 1.0f : most;
}

// c of feature a, finite in any case.
__device__ __forceinline__ float constant_of(const AttentionProblem& p, int a, float most) {
  const float u = p.u[a] * (p.scale / p.temperature);
  return finite(u) ? most / counted(u, most) : 1.0f;
}

// Offset and factor, by one warp; `padded` features are counted besides. A u that is not finite
// shows in the offset, and so in every score.
__device__ inline float2 line_of(const AttentionProblem& p, float most, int padded) {
  double total = 0.0;
  for (int a = threadIdx.x % kWarp; a < p.D; a += kWarp) {
    total += counted(p.u[a] * (p.scale / p.temperature), most);
  }
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) total += __shfl_xor_sync(kAll, total, o);
  total += 2.0 * most * static_cast<double>(padded) / kPadding;
  return {static_cast<float>(total), -2.0f * most};
}

// e^{2x}, 1 where x is NaN.
__device__ __forceinline__ float exp_twice(float x) {
  return exp2_of(fminf(fmaxf(x == x ? x : 0.0f, -kFarthest), kFarthest) * (2.0f * kLog2e));
}

}  // namespace fovea::cuda
