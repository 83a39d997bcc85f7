// The noise of draws, g = −log(−log(uniform)), by position: the CPU's, operation by operation.
#pragma once

#include "cuda/rows.cuh"

namespace fovea::cuda {

// log x for x from 2⁻³³ on, as the CPU's kernels compute it.
__device__ __forceinline__ float log_of(float x) {
  const int bits = __float_as_int(x), k = (bits - 0x3f3504f3) >> 23;
  const float m = __int_as_float(bits - (k << 23)), kf = static_cast<float>(k);
  const float s = __fdiv_rn(__fsub_rn(m, 1.0f), __fadd_rn(m, 1.0f)), z = __fmul_rn(s, s);
  float p = __fmaf_rn(z, 2.0f / 9, 2.0f / 7);
  p = __fmaf_rn(z, p, 2.0f / 5);
  p = __fmaf_rn(z, p, 2.0f / 3);
  float y = __fmaf_rn(__fmul_rn(z, s), p, __fmul_rn(kf, 1.42860677e-6f));
  y = __fadd_rn(y, __fadd_rn(s, s));
  return __fmaf_rn(kf, 0.693145752f, y);
}

__device__ __forceinline__ float gumbel(RandomKey key, int64_t j) {
  const uint32_t bits = bits32(key, static_cast<uint64_t>(j));
  const float high = static_cast<float>(bits >> 16), low = static_cast<float>(bits & 0xffffu);
  const float t = __fadd_rn(__fmul_rn(high, 0x1p-16f), __fmul_rn(__fadd_rn(low, 0.5f), 0x1p-32f));
  const float series = __fmaf_rn(__fmul_rn(t, t), __fmaf_rn(t, 1.0f / 3, 0.5f), t);
  const float rest = fmaxf(__fsub_rn(1.0f, t), 0x1p-33f);
  return -log_of(t < 0.01f ? series : -log_of(rest));
}

// A row of scores, with noise where there is some.
struct RowScores {
  const float* s;
  bool noisy;
  RandomKey key;
  int64_t first;
  __device__ float operator()(int j) const { return noisy ? s[j] + gumbel(key, first + j) : s[j]; }
};
__device__ __forceinline__ RowScores scores_of(const AttentionProblem& p, const float* s,
                                               const RowAt& row, bool noisy) {
  if (!noisy) return {s, false, {}, 0};
  return {s, true,
          random_key(p.seed, Purpose::gumbel, static_cast<uint64_t>(p.first.b + row.b),
                     static_cast<uint64_t>(p.first.h + row.h),
                     static_cast<uint64_t>(p.first.i + row.i)),
          p.first.j};
}

}  // namespace fovea::cuda
