// Dot products on Hopper: what rows of v and d_context that have no finite norm, and are 0 in their
// halves, add to those whose weight for them is not 0.
#pragma once

#include "cuda/dot_prepare.cuh"

namespace fovea::cuda {

// The weight of a pair, in float32, from the forward pass' statistic.
__device__ inline float pair_weight(const AttentionProblem& p, int b, int h, int i, int j,
                                    float stat) {
  const Range keys = range_of(p, b, h, i);
  if (j < keys.begin || j >= keys.end) return 0.0f;
  const float* const q = row_of(p.q, b, h, i);
  const float* const k = row_of(p.k, b, h / heads_sharing(p), j);
  float sum = 0.0f;
  for (int d = threadIdx.x % kWarp; d < p.D; d += kWarp) sum += q[d * p.q.c] * k[d * p.k.c];
  return exp2_of((warp_sum(sum) * (p.scale / p.temperature) - stat) * kLog2e);
}

__device__ inline void add_row(float* to, int64_t step, const float* from, int64_t from_step, int n,
                               float weight) {
  for (int d = threadIdx.x % kWarp; d < n && weight != 0.0f; d += kWarp) {
    to[d * step] += weight * from[d * from_step];
  }
}

// context_i += w_ij·v_j of 16 queries, by a warp that wrote them and their statistics.
__device__ inline void add_odd_values(const AttentionProblem& p, const DotPrepared& in,
                                      const AttentionResult& out, int first) {
  const int H = static_cast<int>(p.H), Lk = static_cast<int>(p.Lk), Lq = static_cast<int>(p.Lq);
  const int z = blockIdx.x, b = z / H, h = z % H, group = heads_sharing(p), zk = z / group;
#pragma unroll 1
  for (int i = first; i < min(first + 16, Lq); ++i) {
#pragma unroll 1
    for (int j = 0; j < Lk; ++j) {
      if (!in.v_odd[static_cast<size_t>(zk) * Lk + j]) continue;
      const float w = pair_weight(p, b, h, i, j, out.stat[static_cast<size_t>(z) * Lq + i]);
      add_row(row_of(out.context, b, h, i), out.context.c, row_of(p.v, b, h / group, j), p.v.c,
              static_cast<int>(p.Dv), w);
    }
  }
}

// dv_j += w_ij·d_context_i of 16 keys, by the warp that wrote them.
__device__ inline void add_odd_gradients(const AttentionProblem& p, const DotPrepared& in,
                                         const View<float>& dv, int first) {
  const int Hk = static_cast<int>(p.Hk), Lq = static_cast<int>(p.Lq), group = heads_sharing(p);
  const int zk = blockIdx.x, b = zk / Hk, hk = zk % Hk;
#pragma unroll 1
  for (int j = first; j < min(first + 16, static_cast<int>(p.Lk)); ++j) {
#pragma unroll 1
    for (int n = 0; n < group * Lq; ++n) {
      const size_t row = static_cast<size_t>(zk) * group * Lq + n;
      if (!in.d_odd[row]) continue;
      const int h = hk * group + n / Lq, i = n % Lq;
      const float w = pair_weight(p, b, h, i, j, in.stat[row]);
      add_row(row_of(dv, b, hk, j), dv.c, row_of(in.d_context, b, h, i), in.d_context.c,
              static_cast<int>(p.Dv), w);
    }
  }
}

}  // namespace fovea::cuda
