// The additive score without tanh, for both paths.
//
//   Σ u·tanh(q+k) = Σu − 2 Σ u/(1 + e^{2q}·e^{2k}).  With c = most/u, X = c·e^{2q}, Y = e^{2k} and
//   x = X·Y + c, a term is one multiply-add and one reciprocal: score = offset + factor·Σ 1/x,
//   offset = Σu, factor = −2·most, where most = max |u|.
//
// A u below 2⁻³² of the largest counts as that. Features past the width have X = 0 and a constant
// c, which the offset takes back. |q|, |k| > 40 count as 40: that differs from tanh(q+k) only where
// they nearly cancel from there. So where queries and keys meet of which some pass a bound upwards
// and some of the others pass it downwards, each term is computed from q + k (`far_apart`).
#pragma once

#include "cuda/rows.cuh"

namespace fovea::cuda {

constexpr float kFarthest = 40.0f;    // of q and of k
constexpr float kPadding = 65536.0f;  // c past the width: four of them may be multiplied
constexpr float kFar = 32.0f;         // q or k from which the other may not be its opposite
constexpr float kCertain = 8.25f;     // of q + k: tanh is ±1 to 1.4e-7

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

// Of u·scale/T: the largest of what is finite, 1 where all is 0; the sum, which is not finite
// where one is not; and the bound for q and k.
struct WeightSums {
  float most, total, far;
};
__device__ inline WeightSums weight_sums(const AttentionProblem& p) {
  __shared__ float of_warps[kWarp];
  __shared__ double totals[kWarp];
  __shared__ float least_of_warps[kWarp];
  float most = 0.0f, least = infinity();
  double total = 0.0;
  for (int a = threadIdx.x; a < p.D; a += blockDim.x) {
    const float u = p.u[a] * (p.scale / p.temperature);
    most = finite(u) ? fmaxf(most, fabsf(u)) : most;
    least = fminf(least, fabsf(u));
    total += u;
  }
  most = warp_max(most);
  least = -warp_max(-least);
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) total += __shfl_xor_sync(kAll, total, o);
  if (threadIdx.x % kWarp == 0) {
    of_warps[threadIdx.x / kWarp] = most;
    least_of_warps[threadIdx.x / kWarp] = least;
    totals[threadIdx.x / kWarp] = total;
  }
  __syncthreads();
  total = 0.0;
  for (int w = 0; w < static_cast<int>(blockDim.x) / kWarp; ++w) {
    most = fmaxf(most, of_warps[w]);
    least = fminf(least, least_of_warps[w]);
    total += totals[w];
  }
  if (most == 0.0f) most = 1.0f;
  // X = c·e^{2q} ends at 3e38 = e^88.5: where some u are small, q counts as less than 40.
  const float widest = logf(most / fmaxf(least, most * 0x1p-32f));
  return {most, static_cast<float>(total), fminf(kFar, 0.5f * (88.5f - widest) - kCertain)};
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

// The largest and the smallest of some rows of q or of k; NaN counts not.
struct Extent {
  float most, least;
};
__device__ __forceinline__ Extent both(Extent a, Extent b) {
  return {fmaxf(a.most, b.most), fminf(a.least, b.least)};
}
__device__ __forceinline__ bool far_apart(Extent q, Extent k, float far) {
  return (q.most > far && k.least < -far) || (q.least < -far && k.most > far);
}

// 1/(1 + e^{2s}) of s = q + k. `finite_fraction` takes NaN for a number.
__device__ __forceinline__ float fraction(float s) {
  return reciprocal(1.0f + exp2_of(at_most(s, kFarthest) * (2.0f * kLog2e)));
}
__device__ __forceinline__ float finite_fraction(float s) {
  return reciprocal(1.0f + exp2_of(fminf(s, kFarthest) * (2.0f * kLog2e)));
}

// How gradients have their terms: two to a reciprocal where that can be, each its own, from q + k.
enum class Terms { paired, single, apart };

// e^{2x} of what is no larger than 40; finite in any case.
__device__ __forceinline__ float exp_twice(float x) {
  return exp2_of(fminf(x, kFarthest) * (2.0f * kLog2e));
}

}  // namespace fovea::cuda
