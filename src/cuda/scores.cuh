// The long path: additive scores of tiles of 128 queries and 128 keys, masked, with the softmax's
// sums by strips of 64 keys. This is where the forward pass spends its time (H200, B 8 L 1024 A
// 256: 299 of 386 µs).
//
//   Four terms share a reciprocal: N/D + 1/x = (N·x + D)/(D·x), 3 instructions a term and a quarter
//   of a reciprocal. A product of four x overflows for inputs of standard deviation 3, so the
//   largest X and Y of the tile decide: four where no product passes 1e37, else two where every x
//   is below 1e30 (what then overflows is below 3e-9), else one. Each has a kernel: one with all
//   three spills. A block whose tile is another's leaves at once. A tile whose inputs are far apart
//   (additive.cuh) takes an exponential and a reciprocal a term, of q + k.
//
// Bound by issue slots and reads of registers: with everything in registers a term takes 3.78
// cycles of a scheduler (8.9 Tterms/s on an H200); this reaches 7.2 with all that surrounds it. One
// reciprocal a term takes 8.1 (the unit for it 8.0), tanh.approx the same with errors of 1e-4.
// Eight orderings of the arithmetic, and x by tensor cores (tf32, 460 µs), were no faster.
#pragma once

#include <climits>

#include "cuda/chunks.cuh"

namespace fovea::cuda {

constexpr int kScoreThreads = 256;
constexpr int kStage = 4;   // quads of features copied at a time
constexpr int kStages = 3;  // and how many of those are on the way
constexpr uint8_t kApart = 0;

// acc[m][n] += Σ 1/x over four features, kShared of which share a reciprocal; 0: a dot product.
// Pairs of features lie swapped in y: then the two factors of a product come from different
// register banks.
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
      if (kShared == 0) {
        sum = term(x.w, y[n].z, term(x.z, y[n].w, term(x.y, y[n].x, term(x.x, y[n].y, sum))));
        continue;
      }
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

// Which tile of scores: of a head of the chunk, from query i0 of the chunk and key j0 on.
struct TileAt {
  int head, i0, j0;
};

// Whether some of n rows of q from i on, and of m rows of k from j on, are far apart.
__device__ __forceinline__ bool rows_apart(const Prepared& in, int z, int i, int n, int zk, int j,
                                           int m) {
  const auto extent = [](const Extent* of_parts, int first, int rows, int all) {
    Extent x = of_parts[min(first / kPart, all - 1)];
    for (int t = 1; t < parts(rows, kPart); ++t) {
      x = both(x, of_parts[min(first / kPart + t, all - 1)]);
    }
    return x;
  };
  return far_apart(
      extent(in.q_extent + static_cast<size_t>(z) * in.query_parts, i, n, in.query_parts),
      extent(in.k_extent + static_cast<size_t>(zk) * in.key_parts, j, m, in.key_parts), in.line[2]);
}

// How many terms of this tile may share a reciprocal.
__device__ __forceinline__ int shared_terms(const Prepared& in, const float4* constants, int z,
                                            int zk, int row, int j0, int quads) {
  const size_t step = in.width / 4;
  const float4* const x = reinterpret_cast<const float4*>(in.x_most) + z * in.query_parts * step;
  const float4* const y = reinterpret_cast<const float4*>(in.y_most) + zk * in.key_parts * step;
  const auto largest = [&](const float4* from, int first, int n_parts, int all, int t) {
    float4 top{};
#pragma unroll
    for (int n = 0; n < n_parts; ++n) {
      const float4 o = __ldg(from + min(first + n, all - 1) * step + t);
      top = {fmaxf(top.x, o.x), fmaxf(top.y, o.y), fmaxf(top.z, o.z), fmaxf(top.w, o.w)};
    }
    return top;
  };
  bool four = true, two = true;
  for (int t = threadIdx.x; t < quads; t += kScoreThreads) {
    const float4 c = constants[t],
                 a = largest(x, row / kPart, kTileRows / kPart, in.query_parts, t);
    const float4 b = largest(y, j0 / kPart, kTileKeys / kPart, in.key_parts, t);
    const float x0 = fmaf(a.x, b.x, fabsf(c.x)), x1 = fmaf(a.y, b.y, fabsf(c.y));
    const float x2 = fmaf(a.z, b.z, fabsf(c.z)), x3 = fmaf(a.w, b.w, fabsf(c.w));
    four = four && x0 * x1 * x2 * x3 < 1e37f;
    two = two && fmaxf(fmaxf(x0, x1), fmaxf(x2, x3)) < 1e30f;
  }
  const int least = __syncthreads_and(four) ? 4 : 2;
  return least == 4 ? 4 : __syncthreads_and(two) ? 2 : 1;
}

// A tile that no row of it may see.
__device__ inline void forbid_tile(const Chunk& to, const TileAt& at) {
  constexpr int kAcross = kTileKeys / 4, kStrips = kTileKeys / kStrip;
  const float4 none{-infinity(), -infinity(), -infinity(), -infinity()};
  for (int t = threadIdx.x; t < kTileRows * kAcross; t += kScoreThreads) {
    const size_t row = to.at(at.head, at.i0 + t / kAcross);
    *reinterpret_cast<float4*>(to.e + row + at.j0 + t % kAcross * 4) = none;
  }
  for (int t = threadIdx.x; t < kTileRows * kStrips; t += kScoreThreads) {
    const size_t row = to.at(at.head, at.i0 + t / kStrips);
    to.strips[(row + at.j0) / kStrip + t % kStrips] = {-infinity(), 0.0f};
  }
}

// What the rows of a tile have in common.
struct TileRows {
  int z, b, h, zk;
  __device__ TileRows(const AttentionProblem& p, int head) : z(head) {
    const int H = static_cast<int>(p.H), Hk = static_cast<int>(p.Hk);
    b = z / H, h = z % H, zk = b * Hk + h / (H / Hk);
  }
};

// Eight lanes' eight scores each of a row: they and their sum into memory.
__device__ __forceinline__ void write_row(const Chunk& to, const TileAt& at, int i, int j,
                                          const float (&e)[8]) {
  float most = e[0];
#pragma unroll
  for (int n = 1; n < 8; ++n) most = fmaxf(most, e[n]);
#pragma unroll
  for (int n = 0; n < 8; ++n) to.e[to.at(at.head, i) + j + n * 8] = e[n];
#pragma unroll
  for (int o = 1; o < 8; o <<= 1) most = fmaxf(most, __shfl_xor_sync(kAll, most, o));
  const float base = most == -infinity() ? 0.0f : most;
  float sum = 0.0f;
#pragma unroll
  for (int n = 0; n < 8; ++n) sum += exp2_of(e[n] - base);
#pragma unroll
  for (int o = 1; o < 8; o <<= 1) sum += __shfl_xor_sync(kAll, sum, o);
  if (threadIdx.x % 8 == 0) {
    to.strips[to.at(at.head, i) / kStrip + j / kStrip] = {fmaxf(most, -infinity()), sum};
  }
}

// Where every key is seen, and nothing is added: scores of the sums of 1/x in registers. Rows are 4
// apart, keys 8.
__device__ __forceinline__ void write_plain(const AttentionProblem& p, const Prepared& in,
                                            const Chunk& to, const TileAt& at,
                                            const float (&acc)[8][8]) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int Lq = static_cast<int>(p.Lq), Lk = static_cast<int>(p.Lk);
  const TileRows rows(p, to.z + at.head);
  const int j = at.j0 + warp % 2 * kStrip + lane % 8;
  const float offset = in.line[0] * in.unit, factor = in.line[1] * in.unit;
  float add[8];
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    const bool there = j + n * 8 < Lk;
    add[n] = there ? offset + in.y_nan[static_cast<size_t>(rows.zk) * Lk + j + n * 8] : -infinity();
  }
#pragma unroll
  for (int m = 0; m < 8; ++m) {
    const int i = at.i0 + warp / 2 * 32 + lane / 8 + m * 4, row = min(to.row + i, Lq - 1);
    const float nan = in.x_nan[static_cast<size_t>(rows.z) * Lq + row];
    float e[8];
#pragma unroll
    for (int n = 0; n < 8; ++n) e[n] = fmaf(acc[m][n], factor, add[n] + nan);
    write_row(to, at, i, j, e);
  }
}

// The same with masks, biases and caps: of sums that each thread finds at its place in shared
// memory, so that one piece of code does for all 64.
__device__ __noinline__ void write_masked(const AttentionProblem& p, const Prepared& in,
                                          const Chunk& to, const TileAt& at, const float* mine,
                                          float offset, float factor) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int Lq = static_cast<int>(p.Lq), Lk = static_cast<int>(p.Lk);
  const TileRows rows(p, to.z + at.head);
  const int j = at.j0 + warp % 2 * kStrip + lane % 8;
  const bool further = has_further(p);
#pragma unroll 1
  for (int m = 0; m < 8; ++m) {
    const int i = at.i0 + warp / 2 * 32 + lane / 8 + m * 4, row = to.row + i;
    const bool there = row < Lq;
    const float nan = there ? in.x_nan[static_cast<size_t>(rows.z) * Lq + row] : 0.0f;
    const RowAt of{rows.b, rows.h, row, there ? range_of(p, rows.b, rows.h, row) : Range{0, 0}};
    float e[8];
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const int key = j + n * 8;
      const float of_key = in.y_nan[static_cast<size_t>(rows.zk) * Lk + min(key, Lk - 1)];
      const float raw = fmaf(mine[(m * 8 + n) * kScoreThreads], factor, offset) + of_key + nan;
      e[n] = masked(p, of, key, raw, in.unit);
      if (further) e[n] = masked_further(p, of, key, e[n], in.unit);
    }
    write_row(to, at, i, j, e);
  }
}

inline size_t score_shared(int width) {
  const size_t stages =
      static_cast<size_t>(kStages) * kStage * (kTileRows + kTileKeys) * sizeof(float4);
  const size_t sums = size_t{64} * kScoreThreads * sizeof(float);
  const size_t all = stages + static_cast<size_t>(width) * sizeof(float);
  return all > sums ? all : sums;
}

__device__ __forceinline__ float4* constants_in(float4* shared) {
  return shared + kStages * kStage * (kTileRows + kTileKeys);
}

// A tile by eight warps, each 32 queries and 64 keys, 8×8 a thread; its constants are there.
template <int kShared>
__device__ __forceinline__ void score_tile(const AttentionProblem& p, const Prepared& in,
                                           const Chunk& to, const TileAt& at, int4 seen,
                                           float4* shared) {
  float4* const xs = shared;
  float4* const ys = xs + kStages * kStage * kTileRows;
  const float4* c = constants_in(shared);
  const int tid = threadIdx.x, lane = tid % kWarp, warp = tid / kWarp;
  const int Lq = static_cast<int>(p.Lq), Lk = static_cast<int>(p.Lk);
  const int quads = parts(static_cast<int>(p.D), 4), steps = parts(quads, kStage);
  const TileRows rows(p, to.z + at.head);
  const int r = tid / 2, q = tid % 2;  // what this thread copies: every other quad of a row of each
  static_assert(kScoreThreads == 2 * kTileRows && kTileKeys == kTileRows);
  const int i = to.row + at.i0 + r, j = at.j0 + r;
  const float* x_from =
      in.x + (static_cast<size_t>(rows.z) * Lq + min(i, Lq - 1)) * in.width + q * 4;
  const float* y_from =
      in.y + (static_cast<size_t>(rows.zk) * Lk + min(j, Lk - 1)) * in.width + q * 4;
  const auto copy = [&](int step) {
    if (step < steps) {
      const int to_quad = (step % kStages) * kStage * kTileRows + q * kTileRows + r;
#pragma unroll
      for (int n = 0; n < kStage / 2; ++n) {
        const bool inside = step * kStage + q + 2 * n < quads;
        copy16(xs + to_quad + n * 2 * kTileRows, x_from + n * 8, i < Lq && inside);
        copy16(ys + to_quad + n * 2 * kTileRows, y_from + n * 8, j < Lk && inside);
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
#pragma unroll 1
  for (int s = 0; s < steps; ++s) {
    copies_wait<kStages - 2>();
    __syncthreads();
    copy(s + kStages - 1);
    const float4* x = xs + (s % kStages) * kStage * kTileRows + mr;
    const float4* y = ys + (s % kStages) * kStage * kTileKeys + nc;
    const int n = min(kStage, quads - s * kStage);
#pragma unroll 1
    for (int g = 0; g < n; ++g, x += kTileRows, y += kTileKeys, ++c) {
      add_quad<kShared>(x, y, kShared > 0 ? *c : float4{}, acc);
    }
  }
  // Padding is past the keys, so a tile that has some is seen whole by nobody, but for the last.
  const bool whole = seen.z <= at.j0 && (seen.w >= at.j0 + kTileKeys || seen.w == Lk);
  if (whole && !p.allowed.data && !p.bias.data && p.softcap == 0.0f && !has_further(p)) {
    return write_plain(p, in, to, at, acc);
  }
  copies_wait<0>();
  __syncthreads();
  float* const mine = reinterpret_cast<float*>(shared) + tid;
#pragma unroll
  for (int m = 0; m < 8; ++m) {
#pragma unroll
    for (int n = 0; n < 8; ++n) mine[(m * 8 + n) * kScoreThreads] = acc[m][n];
  }
  write_masked(p, in, to, at, mine, in.line[0], in.line[1]);
}

// A tile from q + k, pair by pair as `score_tile` shares them.
__device__ __noinline__ void score_apart(const AttentionProblem& p, const Prepared& in,
                                         const Chunk& to, const TileAt& at, float4* shared) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, D = static_cast<int>(p.D);
  const TileRows rows(p, to.z + at.head);
  const int hk = rows.zk % static_cast<int>(p.Hk);
  const float* q[8];
  const float* k[8];
#pragma unroll
  for (int m = 0; m < 8; ++m) {
    const int i = to.row + at.i0 + warp / 2 * 32 + lane / 8 + m * 4;
    const int j = at.j0 + warp % 2 * kStrip + lane % 8 + m * 8;
    q[m] = row_of(p.q, rows.b, rows.h, min(i, static_cast<int>(p.Lq) - 1));
    k[m] = row_of(p.k, rows.b, hk, min(j, static_cast<int>(p.Lk) - 1));
  }
  float* const mine = reinterpret_cast<float*>(shared) + threadIdx.x;
  const float scale = p.scale / p.temperature;
#pragma unroll 1
  for (int m = 0; m < 8; m += 4) {  // half of the pairs at a time, for registers
    float sum[4][8] = {};
#pragma unroll 1
    for (int a = 0; a < D; ++a) {
      const float u = p.u[a] * scale;
      float keys[8];
#pragma unroll
      for (int n = 0; n < 8; ++n) keys[n] = k[n][a * p.k.c];
#pragma unroll
      for (int t = 0; t < 4; ++t) {
        const float query = (m == 0 ? q[t] : q[t + 4])[a * p.q.c];
#pragma unroll
        for (int n = 0; n < 8; ++n) {
          sum[t][n] = fmaf(u, fmaf(-2.0f, fraction(query + keys[n]), 1.0f), sum[t][n]);
        }
      }
    }
#pragma unroll
    for (int t = 0; t < 4; ++t) {
#pragma unroll
      for (int n = 0; n < 8; ++n) mine[((m + t) * 8 + n) * kScoreThreads] = sum[t][n];
    }
  }
  write_masked(p, in, to, at, mine, 0.0f, 1.0f);
}

__device__ __forceinline__ int4 range_of_tile(const Prepared& in, const Chunk& c,
                                              const TileAt& at) {
  const int tile = (c.row + at.i0) / kTileRows;
  return in.range[static_cast<size_t>(c.z + at.head) * in.query_tiles + tile];
}

// The keys that some of rows i0 … i0 + n of the chunk may see; i0 begins a tile.
__device__ inline int2 keys_seen(const Prepared& in, const Chunk& c, int z, int i0, int n) {
  int2 all{INT_MAX, 0};
  for (int i = i0; i < min(i0 + n, c.rows); i += kTileRows) {
    const int4 seen = in.range[static_cast<size_t>(z) * in.query_tiles + (c.row + i) / kTileRows];
    all = {min(all.x, seen.x), max(all.y, seen.y)};
  }
  return all;
}

// Tiles of which four terms share a reciprocal; the others are noted.
__global__ __launch_bounds__(kScoreThreads, FOVEA_BLOCKS_AT_ONCE(2)) void score_tiles(
    const __grid_constant__ AttentionProblem p, const __grid_constant__ Prepared in,
    const __grid_constant__ Chunk to) {
  extern __shared__ float4 shared[];
  const TileAt at{static_cast<int>(blockIdx.z), static_cast<int>(blockIdx.y) * kTileRows,
                  static_cast<int>(blockIdx.x) * kTileKeys};
  const int4 seen = range_of_tile(in, to, at);
  uint8_t* const kind = to.kinds + (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  if (seen.x >= at.j0 + kTileKeys || seen.y <= at.j0) {
    if (threadIdx.x == 0) *kind = 4;
    return forbid_tile(to, at);
  }
  const int quads = parts(static_cast<int>(p.D), 4);
  float4* const constants = constants_in(shared);
  for (int t = threadIdx.x; t < quads; t += kScoreThreads) {
    constants[t] = reinterpret_cast<const float4*>(in.constant)[t];
  }
  const TileRows rows(p, to.z + at.head);
  if (rows_apart(in, rows.z, to.row + at.i0, kTileRows, rows.zk, at.j0, kTileKeys)) {
    if (threadIdx.x == 0) *kind = kApart;
    return;
  }
  const int terms = shared_terms(in, constants, rows.z, rows.zk, to.row + at.i0, at.j0, quads);
  if (threadIdx.x == 0) *kind = static_cast<uint8_t>(terms);
  if (terms == 4) score_tile<4>(p, in, to, at, seen, shared);
}

// Those others, as many blocks as there are processors.
__global__ __launch_bounds__(kScoreThreads,
                             1) void score_wide_tiles(const __grid_constant__ AttentionProblem p,
                                                      const __grid_constant__ Prepared in,
                                                      const __grid_constant__ Chunk to) {
  extern __shared__ float4 shared[];
  const int across = to.padded_keys / kTileKeys, down = parts(to.rows, kTileRows);
  const int quads = parts(static_cast<int>(p.D), 4);
  for (int t = blockIdx.x; t < to.heads * down * across; t += gridDim.x) {
    const int kind = to.kinds[t];
    if (kind == 4) continue;
    __syncthreads();
    for (int n = threadIdx.x; n < quads && kind != kApart; n += kScoreThreads) {
      constants_in(shared)[n] = reinterpret_cast<const float4*>(in.constant)[n];
    }
    const TileAt at{t / across / down, t / across % down * kTileRows, t % across * kTileKeys};
    const int4 seen = range_of_tile(in, to, at);
    if (kind == kApart) {
      score_apart(p, in, to, at, shared);
    } else if (kind == 2) {
      score_tile<2>(p, in, to, at, seen, shared);
    } else {
      score_tile<1>(p, in, to, at, seen, shared);
    }
    copies_wait<0>();
  }
}

// Dot products, in float32: a multiply-add a term, and as additive scores but for that.
__global__ __launch_bounds__(kScoreThreads, FOVEA_BLOCKS_AT_ONCE(2)) void score_dot_tiles(
    const __grid_constant__ AttentionProblem p, const __grid_constant__ Prepared in,
    const __grid_constant__ Chunk to) {
  extern __shared__ float4 shared[];
  const TileAt at{static_cast<int>(blockIdx.z), static_cast<int>(blockIdx.y) * kTileRows,
                  static_cast<int>(blockIdx.x) * kTileKeys};
  const int4 seen = range_of_tile(in, to, at);
  if (seen.x >= at.j0 + kTileKeys || seen.y <= at.j0) return forbid_tile(to, at);
  score_tile<0>(p, in, to, at, seen, shared);
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
