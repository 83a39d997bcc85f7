// Dot products on Hopper: what rows of v and d_context that have no finite norm, and are 0 in their
// halves, add to those whose weight for them is not 0. Blocks that find none leave at once.
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

__device__ inline void add_row(float* to, int64_t step, const float* from, int64_t from_step,
                               int n, float weight) {
  for (int d = threadIdx.x % kWarp; d < n && weight != 0.0f; d += kWarp) {
    to[d * step] += weight * from[d * from_step];
  }
}

// context_i += w_ij·v_j: a warp a query.
__global__ __launch_bounds__(256) void add_odd_values(const __grid_constant__ AttentionProblem p,
                                                      const __grid_constant__ DotPrepared in,
                                                      const float* stat, const View<float> context) {
  const int H = static_cast<int>(p.H), Hk = static_cast<int>(p.Hk), Lk = static_cast<int>(p.Lk);
  const int z = blockIdx.x, b = z / H, h = z % H, zk = b * Hk + h / (H / Hk);
  if (!in.odd[odd_values * in.heads + zk]) return;
  const int step = static_cast<int>(gridDim.y) * 8;
  for (int i = blockIdx.y * 8 + threadIdx.x / kWarp; i < p.Lq; i += step) {
    for (int j = 0; j < Lk; ++j) {
      if (!in.v_odd[static_cast<size_t>(zk) * Lk + j]) continue;
      const float w = pair_weight(p, b, h, i, j, stat[static_cast<size_t>(z) * p.Lq + i]);
      add_row(row_of(context, b, h, i), context.c, row_of(p.v, b, h / (H / Hk), j), p.v.c,
              static_cast<int>(p.Dv), w);
    }
  }
}

// dv_j += w_ij·d_context_i: a warp a key.
__global__ __launch_bounds__(256) void add_odd_gradients(
    const __grid_constant__ AttentionProblem p, const __grid_constant__ DotPrepared in,
    const __grid_constant__ AttentionGradients g) {
  const int Hk = static_cast<int>(p.Hk), group = static_cast<int>(p.H) / Hk;
  const int zk = blockIdx.x, b = zk / Hk, hk = zk % Hk, step = static_cast<int>(gridDim.y) * 8;
  if (!in.odd[odd_d_context * in.heads + zk]) return;
  for (int j = blockIdx.y * 8 + threadIdx.x / kWarp; j < p.Lk; j += step) {
    for (int n = 0; n < group * static_cast<int>(p.Lq); ++n) {
      const size_t row = static_cast<size_t>(zk) * group * p.Lq + n;
      if (!in.d_odd[row]) continue;
      const int h = hk * group + n / static_cast<int>(p.Lq), i = n % static_cast<int>(p.Lq);
      const float w = pair_weight(p, b, h, i, j, g.stat[row]);
      add_row(row_of(g.dv, b, hk, j), g.dv.c, row_of(g.d_context, b, h, i), g.d_context.c,
              static_cast<int>(p.Dv), w);
    }
  }
}

}  // namespace fovea::cuda
