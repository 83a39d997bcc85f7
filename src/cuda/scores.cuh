// The long path: additive scores of tiles of 128 queries and 128 keys, masked, with the softmax's
// sums by strips of 64 keys. This is where the forward pass spends its time (H200, B 8 L 1024 A
// 256: 288 of 368 µs).
//
//   Four terms share a reciprocal: N/D + 1/x = (N·x + D)/(D·x), 3 instructions a term and a quarter
//   of a reciprocal. A product of four x overflows for inputs of standard deviation 3, so the
//   largest X and Y of the tile decide: four where no product passes 1e37, else two where every x
//   is below 1e30 (what then overflows is below 3e-9), else one. Each has a kernel: one with all
//   three spills. A block whose tile is another's leaves at once.
//
// Bound by issue slots and reads of registers: with everything in registers a term takes 3.78
// cycles of a scheduler (8.9 Tterms/s on an H200); this reaches 7.5. One reciprocal a term
// takes 8.1 (the unit for it 8.0), tanh.approx the same with errors of 1e-4. Eight orderings of the
// arithmetic, and x by tensor cores (tf32, 460 µs), were no faster.
#pragma once

#include "cuda/prepare.cuh"

namespace fovea::cuda {

constexpr int kScoreThreads = 256;
constexpr int kStage = 4;   // quads of features copied at a time
constexpr int kStages = 3;  // and how many of those are on the way
constexpr int kStrip = 64;  // keys of one pair (maximum, sum)

// Some rows of some heads, whose scores are in memory: as many as fit a bound.
struct Chunk {
  int z, heads;     // of B·H: z … z + heads
  int row, rows;    // of Lq
  int padded;       // rows that e has room for
  int padded_keys;  // columns of e
  float* e;         // [heads][padded][padded_keys], units of log 2
  float2* strips;   // [heads][padded][padded_keys / 64]
  RowState* state;  // [heads][padded]
  __host__ __device__ size_t at(int head, int i) const {
    return (static_cast<size_t>(head) * padded + i) * padded_keys;
  }
};

// acc[m][n] += Σ 1/x over four features. Pairs of features lie swapped in y: then the two factors
// of a product come from different register banks.
template <int kShared>
__device__ __forceinline__ void add_quad(const float4* xs, const float4* ys, const float4 c,
                                         float (&acc)[8][8]) {
  float4 y[8];
#pragma unroll
  for (int n = 0; n < 8; ++n) y[n] = ys[n * 8];
#pragma unroll
  for (int m = 0; m < 8; ++m) {
    const float4 x = xs[m * 4];
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      float& sum = acc[m][n];
      const auto term = [](float a, float b, float add) { return fmaf(a, b, add); };
      if (kShared == 1) {
        sum += reciprocal(term(x.x, y[n].y, c.x));
        sum += reciprocal(term(x.y, y[n].x, c.y));
        sum += reciprocal(term(x.z, y[n].w, c.z));
        sum += reciprocal(term(x.w, y[n].z, c.w));
        continue;
      }
      float below = term(x.x, y[n].y, c.x), z = term(x.y, y[n].x, c.y);
      float above = below + z;
      below *= z;
      if (kShared == 2) {
        sum = fmaf(above, reciprocal(below), sum);
        below = term(x.z, y[n].w, c.z), z = term(x.w, y[n].z, c.w);
        above = below + z;
        below *= z;
        sum = fmaf(above, reciprocal(below), sum);
        continue;
      }
      z = term(x.z, y[n].w, c.z);
      float product = below * z;
      above = fmaf(above, z, below);
      below = product;
      z = term(x.w, y[n].z, c.w);
      product = below * z;
      above = fmaf(above, z, below);
      sum = fmaf(above, reciprocal(product), sum);
    }
  }
}

// How many terms of this tile may share a reciprocal.
__device__ __forceinline__ int shared_terms(const float4* constants, const float* x_most,
                                            const float* y_most, int quads) {
  bool four = true, two = true;
  for (int t = threadIdx.x; t < quads; t += kScoreThreads) {
    const float4 c = constants[t], x = reinterpret_cast<const float4*>(x_most)[t];
    const float4 y = reinterpret_cast<const float4*>(y_most)[t];
    const float x0 = fmaf(x.x, y.x, fabsf(c.x)), x1 = fmaf(x.y, y.y, fabsf(c.y));
    const float x2 = fmaf(x.z, y.z, fabsf(c.z)), x3 = fmaf(x.w, y.w, fabsf(c.w));
    four = four && x0 * x1 * x2 * x3 < 1e37f;
    two = two && fmaxf(fmaxf(x0, x1), fmaxf(x2, x3)) < 1e30f;
  }
  four = __syncthreads_and(four);
  two = __syncthreads_and(two);
  return four ? 4 : two ? 2 : 1;
}

// A tile that no row of it may see.
__device__ inline void forbid_tile(const Chunk& to, int head, int i0, int j0) {
  for (int t = threadIdx.x; t < kTile * kTile / 4; t += kScoreThreads) {
    const int i = i0 + t / (kTile / 4), j = j0 + t % (kTile / 4) * 4;
    *reinterpret_cast<float4*>(to.e + to.at(head, i) + j) = {-infinity(), -infinity(), -infinity(),
                                                             -infinity()};
  }
  const int i = i0 + static_cast<int>(threadIdx.x) / 2, strip = j0 / kStrip + threadIdx.x % 2;
  to.strips[to.at(head, i) / kStrip + strip] = {-infinity(), 0.0f};
}

// Sums of 1/x, which each thread finds at its place in shared memory, become scores. Rows are 4
// apart, keys 8: eight lanes have a row.
__device__ inline void write_scores(const AttentionProblem& p, const Prepared& in, const Chunk& to,
                                    const float* mine, int head, int i0, int j0) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, z = to.z + head;
  const int H = static_cast<int>(p.H), Lq = static_cast<int>(p.Lq), Lk = static_cast<int>(p.Lk);
  const int b = z / H, h = z % H,
            zk = b * static_cast<int>(p.Hk) + h / (H / static_cast<int>(p.Hk));
  const int j1 = j0 + warp % 2 * kStrip + lane % 8;
  const float offset = in.line[0], factor = in.line[1];
  const bool plain = unmasked(p);
  float nan[8];
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    nan[n] = in.y_nan[static_cast<size_t>(zk) * Lk + min(j1 + n * 8, Lk - 1)];
  }
#pragma unroll 1
  for (int m = 0; m < 8; ++m) {
    const int i = i0 + warp / 2 * 32 + lane / 8 + m * 4, row = to.row + i;
    const bool there = row < Lq;
    const float row_nan = there ? in.x_nan[static_cast<size_t>(z) * Lq + row] : 0.0f;
    const RowAt at{b, h, row, there && !plain ? range_of(p, b, h, row) : Range{0, 0}};
    float e[8], most = -infinity();
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const int j = j1 + n * 8;
      const float raw = fmaf(mine[(m * 8 + n) * kScoreThreads], factor, offset) + nan[n] + row_nan;
      if (plain) {
        e[n] = j < Lk ? raw * kLog2e : -infinity();
      } else {
        e[n] = masked(p, at, j, raw);
      }
      most = fmaxf(most, e[n]);
      to.e[to.at(head, i) + j] = e[n];
    }
#pragma unroll
    for (int o = 1; o < 8; o <<= 1) most = fmaxf(most, __shfl_xor_sync(kAll, most, o));
    const float base = most == -infinity() ? 0.0f : most;
    float sum = 0.0f;
#pragma unroll
    for (int n = 0; n < 8; ++n) sum += exp2_of(e[n] - base);
#pragma unroll
    for (int o = 1; o < 8; o <<= 1) sum += __shfl_xor_sync(kAll, sum, o);
    if (lane % 8 == 0) {
      to.strips[to.at(head, i) / kStrip + j0 / kStrip + warp % 2] = {most, sum};
    }
  }
}

inline size_t score_shared(int width) {
  const size_t stages = static_cast<size_t>(kStages) * kStage * 2 * kTile * sizeof(float4);
  const size_t sums = size_t{64} * kScoreThreads * sizeof(float);
  const size_t all = stages + static_cast<size_t>(width) * sizeof(float);
  return all > sums ? all : sums;
}

// Eight warps, each 32 queries and 64 keys, 8×8 a thread.
template <int kShared>
__global__ __launch_bounds__(kScoreThreads, kShared == 1 ? 1 : 2) void score_tiles(
    const __grid_constant__ AttentionProblem p, const __grid_constant__ Prepared in,
    const __grid_constant__ Chunk to) {
  extern __shared__ float4 shared[];
  float4* const xs = shared;
  float4* const ys = xs + kStages * kStage * kTile;
  float4* const constants = ys + kStages * kStage * kTile;
  const int tid = threadIdx.x, lane = tid % kWarp, warp = tid / kWarp;
  const int head = blockIdx.z, z = to.z + head, i0 = blockIdx.y * kTile, j0 = blockIdx.x * kTile;
  const int H = static_cast<int>(p.H), Lq = static_cast<int>(p.Lq), Lk = static_cast<int>(p.Lk);
  const int zk = z / H * static_cast<int>(p.Hk) + z % H / (H / static_cast<int>(p.Hk));
  const int quads = parts(static_cast<int>(p.D), 4), steps = parts(quads, kStage);
  const int tile = (to.row + i0) / kTile;
  const int2 seen = tile < in.query_tiles ? in.range[static_cast<size_t>(z) * in.query_tiles + tile]
                                          : make_int2(0, 0);
  if (seen.x >= j0 + kTile || seen.y <= j0) {
    if (kShared == 4) forbid_tile(to, head, i0, j0);
    return;
  }
  for (int t = tid; t < quads; t += kScoreThreads) {
    constants[t] = reinterpret_cast<const float4*>(in.constant)[t];
  }
  const float* x_most = in.x_most + (static_cast<size_t>(z) * in.query_tiles + tile) * in.width;
  const float* y_most =
      in.y_most + (static_cast<size_t>(zk) * in.key_tiles + j0 / kTile) * in.width;
  if (shared_terms(constants, x_most, y_most, quads) != kShared) return;

  const int r = tid / 2, q = tid % 2;  // what this thread copies: a row, every other quad
  const bool x_there = to.row + i0 + r < Lq, y_there = j0 + r < Lk;
  const float* x_from =
      in.x + (static_cast<size_t>(z) * Lq + min(to.row + i0 + r, Lq - 1)) * in.width + q * 4;
  const float* y_from =
      in.y + (static_cast<size_t>(zk) * Lk + min(j0 + r, Lk - 1)) * in.width + q * 4;
  const auto copy = [&](int step) {
    if (step < steps) {
      const int at = (step % kStages) * kStage * kTile + q * kTile + r;
#pragma unroll
      for (int c = 0; c < kStage / 2; ++c) {
        const bool inside = step * kStage + q + 2 * c < quads;
        copy16(xs + at + c * 2 * kTile, x_from + c * 8, x_there && inside);
        copy16(ys + at + c * 2 * kTile, y_from + c * 8, y_there && inside);
      }
      x_from += kStage * 4;
      y_from += kStage * 4;
    }
    copies_commit();
  };
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) copy(s);
  float acc[8][8];
#pragma unroll
  for (int m = 0; m < 8; ++m) {
#pragma unroll
    for (int n = 0; n < 8; ++n) acc[m][n] = 0.0f;
  }
  const int mr = warp / 2 * 32 + lane / 8, nc = warp % 2 * kStrip + lane % 8;
  const float4* c = constants;
#pragma unroll 1
  for (int s = 0; s < steps; ++s) {
    copies_wait<kStages - 2>();
    __syncthreads();
    copy(s + kStages - 1);
    const float4* x = xs + (s % kStages) * kStage * kTile + mr;
    const float4* y = ys + (s % kStages) * kStage * kTile + nc;
    const int n = min(kStage, quads - s * kStage);
#pragma unroll 1
    for (int g = 0; g < n; ++g, x += kTile, y += kTile, ++c) add_quad<kShared>(x, y, *c, acc);
  }
  copies_wait<0>();
  __syncthreads();
  float* const mine = reinterpret_cast<float*>(shared) + tid;
#pragma unroll
  for (int m = 0; m < 8; ++m) {
#pragma unroll
    for (int n = 0; n < 8; ++n) mine[(m * 8 + n) * kScoreThreads] = acc[m][n];
  }
  write_scores(p, in, to, mine, head, i0, j0);
}

// Out of a row's strips: its state and, where they are wanted, its statistic and the sink's
// gradient. A warp a row.
__global__ __launch_bounds__(256) void finish_rows(const __grid_constant__ AttentionProblem p,
                                                   const __grid_constant__ Chunk c, float* stat,
                                                   const float* beta, float* dsink) {
  const int w = blockIdx.x * 8 + threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  if (w >= c.heads * c.rows) return;
  const int head = w / c.rows, i = w % c.rows, H = static_cast<int>(p.H);
  const int z = c.z + head, b = z / H, h = z % H, strips = c.padded_keys / kStrip;
  const float2* const from = c.strips + c.at(head, i) / kStrip;
  Sum sum{-infinity(), 0.0f};
  for (int s = lane; s < strips; s += kWarp) sum = merged(sum, {from[s].x, from[s].y});
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) {
    sum = merged(sum, {__shfl_xor_sync(kAll, sum.m, o), __shfl_xor_sync(kAll, sum.l, o)});
  }
  if (lane != 0) return;
  sum = merged(sink_of(p, h), sum);
  const RowState row{sum.m, log_sum_of(sum),
                     p.dropout > 0.0f ? noise_of(p, b, h, c.row + i) : RandomKey{}};
  c.state[static_cast<size_t>(head) * c.padded + i] = row;
  const size_t at = static_cast<size_t>(z) * p.Lq + c.row + i;
  if (stat) stat[at] = stat_of(sum);
  if (dsink) dsink[at] = sink_gradient(p, h, row, beta[at]);
}

}  // namespace fovea::cuda
