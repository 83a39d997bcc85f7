// Sums of what blocks have computed for themselves, in a fixed order.
#pragma once

#include "cuda/rows.cuh"

namespace fovea::cuda {

// to[b][hk][r][n] (+)= scale·u[n]·Σ over parts and the heads of the group.
struct PartialSum {
  const float* from;  // [part][head][rows][step]
  int parts, heads;   // heads z … z + heads of B·H
  int z, rows, n, step;
  View<float> to;
  int to_row, group, to_heads;  // `to` has to_heads heads, each of `group` of the parts' heads
  const float* u;               // null: 1
  float scale;
  bool add;
};

static __global__ __launch_bounds__(256) void sum_parts(const __grid_constant__ PartialSum x) {
  const size_t all = static_cast<size_t>(x.heads / x.group) * x.rows * x.n;
  const size_t head_step = static_cast<size_t>(x.rows) * x.step;
  for (size_t t = blockIdx.x * size_t{256} + threadIdx.x; t < all; t += gridDim.x * size_t{256}) {
    const int n = static_cast<int>(t % x.n), r = static_cast<int>(t / x.n % x.rows);
    const int head = static_cast<int>(t / x.n / x.rows) * x.group;
    const float* from = x.from + head * head_step + static_cast<size_t>(r) * x.step + n;
    float sum = 0.0f;
    for (int member = 0; member < x.group; ++member, from += head_step) {
#pragma unroll 4
      for (int s = 0; s < x.parts; ++s) sum += from[s * (x.heads * head_step)];
    }
    if (x.u) sum *= x.scale * x.u[n];
    const int z = (x.z + head) / x.group;
    float* const to = row_of(x.to, z / x.to_heads, z % x.to_heads, x.to_row + r) + n * x.to.c;
    *to = x.add ? *to + sum : sum;
  }
}

// du[a] (+)= scale·(Σ totals − 2 Σ gr[·][a]): 32 features a block, 8 warps over the parts.
struct WeightSum {
  const float* gr;  // [n_gr][step]
  int n_gr, step;
  const float* totals;
  int n_totals;
  float* du;
  int n;
  float scale;
  bool add;
};

static __global__ __launch_bounds__(256) void sum_weight_gradients(
    const __grid_constant__ WeightSum x) {
  __shared__ float by_warp[8][32], of_totals[8];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, a = blockIdx.x * kWarp + lane;
  float sum = 0.0f, total = 0.0f;
  if (a < x.n) {
#pragma unroll 4
    for (int t = warp; t < x.n_gr; t += 8) sum += x.gr[static_cast<size_t>(t) * x.step + a];
  }
  for (int t = threadIdx.x; t < x.n_totals; t += 256) total += x.totals[t];
  total = warp_sum(total);
  by_warp[warp][lane] = sum;
  if (lane == 0) of_totals[warp] = total;
  __syncthreads();
  if (warp != 0 || a >= x.n) return;
  for (int w = 1; w < 8; ++w) sum += by_warp[w][lane];
  total = 0.0f;
  for (int w = 0; w < 8; ++w) total += of_totals[w];
  const float du = x.scale * (total - 2.0f * sum);
  x.du[a] = x.add ? x.du[a] + du : du;
}

}  // namespace fovea::cuda
