// Sums of what blocks have computed for themselves, in a fixed order.
#pragma once

#include "cuda/additive.cuh"

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

// kFour numbers a thread: 4 where rows can be written so.
template <int kFour>
static __global__ __launch_bounds__(256) void sum_parts(const __grid_constant__ PartialSum x) {
  const int columns = x.n / kFour;
  const size_t all = static_cast<size_t>(x.heads / x.group) * x.rows * columns;
  const size_t head_step = static_cast<size_t>(x.rows) * x.step, part_step = x.heads * head_step;
  for (size_t t = blockIdx.x * size_t{256} + threadIdx.x; t < all; t += gridDim.x * size_t{256}) {
    const int n = static_cast<int>(t % columns) * kFour, r = static_cast<int>(t / columns % x.rows);
    const int head = static_cast<int>(t / columns / x.rows) * x.group;
    const float* from = x.from + head * head_step + static_cast<size_t>(r) * x.step + n;
    float sum[kFour] = {};
    for (int member = 0; member < x.group; ++member, from += head_step) {
#pragma unroll 4
      for (int s = 0; s < x.parts; ++s) {
        if constexpr (kFour == 4) {
          const float4 v = __ldcs(reinterpret_cast<const float4*>(from + s * part_step));
          sum[0] += v.x, sum[1] += v.y, sum[2] += v.z, sum[3] += v.w;
        } else {
          sum[0] += from[s * part_step];
        }
      }
    }
    const int z = (x.z + head) / x.group;
    float* const row = row_of(x.to, z / x.to_heads, z % x.to_heads, x.to_row + r);
#pragma unroll
    for (int e = 0; e < kFour; ++e) {
      if (x.u) sum[e] *= x.scale * x.u[n + e];
      if (x.add) sum[e] += row[(n + e) * x.to.c];
    }
    if constexpr (kFour == 4) {
      *reinterpret_cast<float4*>(row + n) = {sum[0], sum[1], sum[2], sum[3]};
    } else {
      row[n * x.to.c] = sum[0];
    }
  }
}

// Starts it in `stream`; `processors` of the device.
inline void launch_sum(const PartialSum& x, int processors, cudaStream_t stream) {
  const bool four = x.n % 4 == 0 && x.step % 4 == 0 && whole_rows(x.to);
  const int64_t n = int64_t{x.heads / x.group} * x.rows * x.n / (four ? 4 : 1);
  const auto blocks =
      static_cast<unsigned>(std::clamp<int64_t>((n + 255) / 256, 1, int64_t{16} * processors));
  if (four) {
    sum_parts<4><<<blocks, 256, 0, stream>>>(x);
  } else {
    sum_parts<1><<<blocks, 256, 0, stream>>>(x);
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
