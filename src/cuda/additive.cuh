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

// Of u·scale/T: the largest of what is finite, 1 where all is 0; and the sum, which is not finite
// where one is not.
struct WeightSums {
  float most, total;
};
__device__ inline WeightSums weight_sums(const AttentionProblem& p) {
  __shared__ float of_warps[kWarp];
  __shared__ double totals[kWarp];
  float most = 0.0f;
  double total = 0.0;
  for (int a = threadIdx.x; a < p.D; a += blockDim.x) {
    const float u = p.u[a] * (p.scale / p.temperature);
    most = finite(u) ? fmaxf(most, fabsf(u)) : most;
    total += u;
  }
  most = warp_max(most);
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) total += __shfl_xor_sync(kAll, total, o);
  if (threadIdx.x % kWarp == 0) {
    of_warps[threadIdx.x / kWarp] = most;
    totals[threadIdx.x / kWarp] = total;
  }
  __syncthreads();
  total = 0.0;
  for (int w = 0; w < static_cast<int>(blockDim.x) / kWarp; ++w) {
    most = fmaxf(most, of_warps[w]);
    total += totals[w];
  }
  return {most == 0.0f ? 1.0f : most, static_cast<float>(total)};
}

// c of feature a, finite in any case.
__device__ __forceinline__ float constant_of(const AttentionProblem& p, int a, float most) {
  const float u = p.u[a] * (p.scale / p.temperature);
  return finite(u) ? most / counted(u, most) : 1.0f;
}

// Offset and factor; `padded` features are counted besides.
__device__ __forceinline__ float2 line_of(const WeightSums& u, int padded) {
  return {u.total + 2.0f * u.most * (static_cast<float>(padded) / kPadding), -2.0f * u.most};
}

// e^{2x} of what is no larger than 40; finite in any case.
__device__ __forceinline__ float exp_twice(float x) {
  return exp2_of(fminf(x, kFarthest) * (2.0f * kLog2e));
}

}  // namespace fovea::cuda
