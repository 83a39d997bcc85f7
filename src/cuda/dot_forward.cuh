// Dot products on Hopper, forward: 128 queries a block, two warpgroups of 64 that compute and one
// that copies tiles of keys and values, two at a time.
//
//   S = Q·Kᵀ, P = 2^(S − max), context = P·V / Σ P, all of them in registers.
//
// float32 by three products of halves, high·high + high·low + low·high; what is left out is below
// 2⁻²² of a term. P is split where it lies, as an operand in registers. The scores of a tile are
// computed together with the P·V of the tile before, and the warpgroups take turns, so that one's
// products run beside the other's softmax. Tensor cores truncate when they add (4096 keys in one
// sum: 1.5e-5 off), so that each tile's P·V is a sum of its own, added in float32.
//
// H200, B 1 H 16 L 4096: the kernel 313 µs for D 64 and 545 for D 128, tensor units 83 and 94 %
// busy. Without turns 8 and 4 % more; bfloat16 6 % less for D 64, errors of 6e-6; one sum: 2 %
// less.
#pragma once

#include "cuda/dot_pairs.cuh"

namespace fovea::cuda {

constexpr int kDotQueries = 128;  // of a block; also the keys of one where those stay
constexpr int kDotBlock = 384;    // threads

template <class T, int kWidth>
struct ForwardShape {
  static constexpr int kKeys = kWidth == 64 ? 128 : 64, kStages = 2, kBlocks = kWidth / 64;
  static constexpr int kScores = kKeys / 2, kSums = kWidth / 2;  // registers of a thread
  static constexpr int kHalves = kDotHalves<T>;
  static constexpr int kQueryBytes = kHalves * kBlocks * kDotQueries * 128;
  static constexpr int kTile = kHalves * kBlocks * kKeys * 128;
  static constexpr int kShared = kQueryBytes + 2 * kStages * kTile + 128;
};

// Addresses in shared memory, and the barriers of queries, and of keys and values: full and empty.
template <class T, int kWidth>
struct ForwardPlan {
  using S = ForwardShape<T, kWidth>;
  uint32_t q, k, v, q_full, k_full, k_empty, v_full, v_empty;
  __device__ explicit ForwardPlan(const void* shared) {
    q = shared_address(shared), k = q + S::kQueryBytes, v = k + S::kStages * S::kTile;
    q_full = v + S::kStages * S::kTile, k_full = q_full + 8, k_empty = k_full + 8 * S::kStages;
    v_full = k_empty + 8 * S::kStages, v_empty = v_full + 8 * S::kStages;
  }
  __device__ void init() const {
    barrier_init(q_full, 1);
    for (int i = 0; i < 8 * S::kStages; i += 8) {
      barrier_init(k_full + i, 1), barrier_init(v_full + i, 1);
      barrier_init(k_empty + i, 8), barrier_init(v_empty + i, 8);  // warps that compute
    }
    barriers_ready();
  }
};

// The head of a block's queries, found anew where it is needed: divisions cost less than registers.
struct DotHead {
  int z, zk, b, h;
  __device__ explicit DotHead(const AttentionProblem& p) : z(blockIdx.x) {
    const int H = static_cast<int>(p.H);
    b = z / H, h = z % H, zk = z / heads_sharing(p);
  }
};
// A block's queries: the last first, since under a causal mask they have the most to do.
__device__ __forceinline__ int first_query() {
  return static_cast<int>(gridDim.y - 1 - blockIdx.y) * kDotQueries;
}

// The tiles of keys that a block's queries need.
struct DotTiles {
  int first, count;
  __device__ DotTiles(const DotPrepared& in, int keys) {
    const size_t at = static_cast<size_t>(blockIdx.x) * in.query_rows + first_query();
    const int4 a = in.seen[at / kDotRows], b = in.seen[at / kDotRows + 1];
    first = min(a.x, b.x) / keys;
    count = max(0, parts(max(a.y, b.y), keys) - first);
  }
};

// Rows of all blocks of columns of all halves, which are `step` bytes apart.
template <int kParts, int kRows>
__device__ __forceinline__ void copy_rows_of(const uint8_t* from, uint32_t step, uint32_t to,
                                             uint32_t full) {
#pragma unroll 1
  for (int x = 0; x < kParts; ++x, from += step, to += kRows * 128) {
    bulk_copy(to, from, kRows * 128, full);
  }
}

template <class T, int kWidth>
__device__ __forceinline__ void copy_forward(const DotPrepared& in, const DotTiles& tiles, int zk,
                                             const ForwardPlan<T, kWidth>& to) {
  using S = ForwardShape<T, kWidth>;
  constexpr int kParts = S::kHalves * S::kBlocks;
  const uint32_t q_step = in.query_rows * 128, k_step = in.key_rows * 128;
  const uint8_t* const q = in.halves[0] + blockIdx.x * kParts * size_t{q_step};
  barrier_expect(to.q_full, S::kQueryBytes);
  copy_rows_of<kParts, kDotQueries>(q + first_query() * size_t{128}, q_step, to.q, to.q_full);
  size_t from = zk * kParts * size_t{k_step} + size_t{128} * S::kKeys * tiles.first;
#pragma unroll 1
  for (int j = 0; j < tiles.count; ++j, from += size_t{128} * S::kKeys) {
    const int s = j % S::kStages, phase = j / S::kStages & 1 ^ 1;
    barrier_wait(to.k_empty + 8 * s, phase);
    barrier_expect(to.k_full + 8 * s, S::kTile);
    copy_rows_of<kParts, S::kKeys>(in.halves[1] + from, k_step, to.k + s * S::kTile,
                                   to.k_full + 8 * s);
    barrier_wait(to.v_empty + 8 * s, phase);
    barrier_expect(to.v_full + 8 * s, S::kTile);
    copy_rows_of<kParts, S::kKeys>(in.halves[2] + from, k_step, to.v + s * S::kTile,
                                   to.v_full + 8 * s);
  }
}

// s = A·Bᵀ of 64 rows of A, kA apart in its blocks of columns, and the rows of B, kB of them. Of
// one half there is high·high alone.
template <class T, int kWidth, int kA, int kB, int kCount>
__device__ __forceinline__ void dot_products(float (&s)[kCount], uint32_t a, uint32_t b) {
  constexpr int kBlocks = kWidth / 64, kFirst = kDotHalves<T> == 2 ? 0 : 2;
#pragma unroll
  for (int product = kFirst; product < 3; ++product) {  // low·high, high·low, high·high
#pragma unroll
    for (int k = 0; k < kWidth / 16; ++k) {
      const int of_a = ((product == 0) * kBlocks + k / 4) * kA * 128 + k % 4 * 32;
      const int of_b = ((product == 1) * kBlocks + k / 4) * kB * 128 + k % 4 * 32;
      multiply_shared<T>(s, matrix(a + (of_a >> 4)), matrix(b + (of_b >> 4)), product - kFirst | k);
    }
  }
  products_commit();
}

// sums (+)= w·B, w in halves in registers, B of kRows rows.
template <class T, int kWidth, int kRows, int kSums, int kCount>
__device__ __forceinline__ void add_products(float (&sums)[kSums], const float (&w)[kCount],
                                             uint32_t b, bool add) {
  constexpr int kFirst = kDotHalves<T> == 2 ? 0 : 2;
#pragma unroll
  for (int k = 0; k < kRows / 16; ++k) {
#pragma unroll
    for (int product = kFirst; product < 3; ++product) {
      uint32_t a[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = __float_as_uint(w[8 * k + 4 * (product == 0) + i]);
      const int of_b = (product == 1) * (kWidth / 64) * kRows * 128 + k * 2048;
      multiply_registers<T>(sums, a, matrix(b + (of_b >> 4)), add ? 1 : k | product - kFirst);
    }
  }
  products_commit();
}

// The two rows of a thread, 8 apart.
struct DotRanges {
  Range of[2];
  __device__ DotRanges(const AttentionProblem& p, int row) {
    const int last = static_cast<int>(p.Lq) - 1;
    const DotHead at(p);
    of[0] = range_of(p, at.b, at.h, min(row, last));
    of[1] = range_of(p, at.b, at.h, min(row + 8, last));
  }
  __device__ bool sees(int i, int key) const { return key >= of[i].begin && key < of[i].end; }
  // The keys that all rows of the warp may see.
  __device__ Range of_warp() const {
    return {__reduce_max_sync(kAll, max(of[0].begin, of[1].begin)),
            __reduce_min_sync(kAll, min(of[0].end, of[1].end))};
  }
};
// Row (0 or 1) and column of a thread's i-th number of a product.
__device__ __forceinline__ int row_of_sum(int i) { return i >> 1 & 1; }
__device__ __forceinline__ int column_of_sum(int i) {
  return (i >> 2) * 8 + static_cast<int>(threadIdx.x & 3) * 2 + (i & 1);
}

// Largest score and sum of two rows, tile by tile; scores times `unit` are in units of log 2.
struct DotSoftmax {
  float m[2] = {-infinity(), -infinity()}, l[2] = {};
  float unit;

  // Scores become weights, and `shrunk` says by what the sums before are to be multiplied.
  template <int kCount>
  __device__ __forceinline__ void add(float (&s)[kCount], float (&shrunk)[2]) {
    // Four chains: with two the softmax would take longer than the other warpgroup's products.
    float most[4] = {m[0], m[1], m[0], m[1]}, base[2];
#pragma unroll
    for (int i = 0; i < kCount; ++i) most[i >> 1 & 3] = fmaxf(most[i >> 1 & 3], s[i]);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      most[r] = fmaxf(most[r], most[r + 2]);
      most[r] = fmaxf(most[r], __shfl_xor_sync(kAll, most[r], 1));
      most[r] = fmaxf(most[r], __shfl_xor_sync(kAll, most[r], 2));
      const float safe = most[r] == -infinity() ? 0.0f : most[r];
      shrunk[r] = exp2_of((m[r] - safe) * unit);
      m[r] = most[r];
      l[r] *= shrunk[r];
      base[r] = fmaf(-safe, unit, kDotWeights);
    }
    float sum[4] = {};
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      s[i] = exp2_of(fmaf(s[i], unit, base[row_of_sum(i)]));
      sum[i >> 1 & 3] += s[i];
    }
    l[0] += sum[0] + sum[2];
    l[1] += sum[1] + sum[3];
  }

  // What all lanes of a row have together, in units of log 2.
  __device__ Sum total(int r) const {
    float sum = l[r] + __shfl_xor_sync(kAll, l[r], 1);
    sum += __shfl_xor_sync(kAll, sum, 2);
    return {m[r] * unit, sum * 0x1p-14f};
  }
};

// Two numbers of a row of n, which may lie beside one another.
__device__ __forceinline__ void store_pair(bf16* row, int64_t step, int at, int n, bool pairs,
                                           float2 x) {
  if (pairs && at + 1 < n) {
    *reinterpret_cast<uint32_t*>(row + at) = narrow2(x.x, x.y);
    return;
  }
  if (at < n) row[at * step] = __float2bfloat16_rn(x.x);
  if (at + 1 < n) row[(at + 1) * step] = __float2bfloat16_rn(x.y);
}
__device__ __forceinline__ void store_pair(float* row, int64_t step, int at, int n, bool pairs,
                                           float2 x) {
  if (pairs && at + 1 < n) {
    *reinterpret_cast<float2*>(row + at) = x;
    return;
  }
  if (at < n) row[at * step] = x.x;
  if (at + 1 < n) row[(at + 1) * step] = x.y;
}

// One warpgroup's 64 queries.
template <class T, int kWidth>
struct ForwardRows {
  using S = ForwardShape<T, kWidth>;
  const AttentionProblem& p;
  const DotPrepared& in;
  const DotTiles& tiles;
  const ForwardPlan<T, kWidth>& plan;
  int group, row;
  Range all_see;  // of the warp
  DotSoftmax softmax;
  float shrunk[2] = {};  // of the tile whose P·V is on its way

  __device__ ForwardRows(const AttentionProblem& problem, const DotPrepared& prepared,
                         const DotTiles& needed, const ForwardPlan<T, kWidth>& shared,
                         int warpgroup)
      : p(problem),
        in(prepared),
        tiles(needed),
        plan(shared),
        group(warpgroup),
        row(first_query() + group * 64 + threadIdx.x / kWarp % 4 * 16 + threadIdx.x % kWarp / 4),
        all_see(DotRanges(p, row).of_warp()) {
    softmax.unit = score_scale(p);
    if constexpr (S::kHalves == 2) {
      const int zk = DotHead(p).zk;
      softmax.unit = 1.0f / (dot_factor(in.norm(DotInput::queries, zk)) *
                             dot_factor(in.norm(DotInput::keys, zk)));
    }
  }

  __device__ __forceinline__ void release(uint32_t barrier) const {
    __syncwarp();
    if (threadIdx.x % kWarp == 0) barrier_arrive(barrier);
  }
  __device__ __forceinline__ void score(float (&s)[S::kScores], int slot) const {
    dot_products<T, kWidth, kDotQueries, S::kKeys>(s, matrix_at(plan.q + group * 64 * 128),
                                                   matrix_at(plan.k + slot * S::kTile));
  }
  __device__ __forceinline__ void add_values(float (&sums)[S::kSums], const float (&w)[S::kScores],
                                             int slot) const {
    const uint32_t v = matrix_at(plan.v + slot * S::kTile, S::kKeys * 128);
    add_products<T, kWidth, S::kKeys>(sums, w, v, false);
  }

  // Scores of tile j that may not be seen.
  __device__ __forceinline__ void mask(float (&s)[S::kScores], int j) const {
    const int first = (tiles.first + j) * S::kKeys;
    if (first >= all_see.begin && first + S::kKeys <= all_see.end) return;
    const DotRanges keys(p, row);
#pragma unroll
    for (int i = 0; i < S::kScores; ++i) {
      if (!keys.sees(row_of_sum(i), first + column_of_sum(i))) s[i] = -infinity();
    }
  }

  // P·V of the tile before is added.
  __device__ __forceinline__ void add(float (&sums)[S::kSums], const float (&fresh)[S::kSums]) {
#pragma unroll
    for (int i = 0; i < S::kSums; ++i) {
      sums[i] = fmaf(sums[i], shrunk[row_of_sum(i)], fresh[i]);
    }
  }

  __device__ __forceinline__ void first(float (&w)[S::kScores]) {
    if (group == 1) turn_give(1);
    barrier_wait(plan.q_full, 0);
    barrier_wait(plan.k_full, 0);
    products_fence();
    score(w, 0);
    products_wait<0>();
    pin(w);
    release(plan.k_empty);
    mask(w, 0);
    softmax.add(w, shrunk);
    split_fragments<T>(w);
  }

  // Scores of tile j beside the P·V of the one before, whose weights w are replaced.
  __device__ __forceinline__ void step(int j, float (&w)[S::kScores], float (&s)[S::kScores],
                                       float (&sums)[S::kSums], float (&fresh)[S::kSums]) {
    const int now = j % S::kStages, then = (j - 1) % S::kStages, phase = (j - 1) / S::kStages & 1;
    barrier_wait(plan.k_full + 8 * now, j / S::kStages & 1);
    turn_take(1 + group);
    products_fence();
    pin(w);
    pin(sums);
    score(s, now);
    barrier_wait(plan.v_full + 8 * then, phase);
    add_values(fresh, w, then);
    turn_give(2 - group);
    products_wait<1>();
    pin(s);
    release(plan.k_empty + 8 * now);
    mask(s, j);
    float next[2];
    softmax.add(s, next);
    split_fragments<T>(s);
    // Already there: the branch keeps ptxas from waiting before the softmax.
    barrier_wait(plan.v_full + 8 * then, phase);
    products_wait<0>();
    pin(w);
    pin(s);
    pin(fresh);
    release(plan.v_empty + 8 * then);
#pragma unroll
    for (int i = 0; i < S::kScores; ++i) w[i] = s[i];
    add(sums, fresh);
    shrunk[0] = next[0], shrunk[1] = next[1];
  }

  __device__ __forceinline__ void last(float (&w)[S::kScores], float (&sums)[S::kSums],
                                       float (&fresh)[S::kSums]) {
    const int j = tiles.count - 1, s = j % S::kStages;
    barrier_wait(plan.v_full + 8 * s, j / S::kStages & 1);
    products_fence();
    pin(w);
    pin(sums);
    add_values(fresh, w, s);
    products_wait<0>();
    pin(fresh);
    add(sums, fresh);
  }

  __device__ __forceinline__ void write(const View<T>& out, float* stat,
                                        const float (&sums)[S::kSums]) const {
    const DotHead at(p);
    float of_values = 0x1p-14f;
    if constexpr (S::kHalves == 2) of_values /= dot_factor(in.norm(DotInput::values, at.zk));
    const int Dv = static_cast<int>(p.Dv);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const Sum seen = softmax.total(r), all = merged(sink_of(p, at.h), seen);
      const int i = row + r * 8;
      if (i >= p.Lq) continue;
      const float over = seen.l == 0.0f ? 0.0f : exp2_of(seen.m - all.m) / all.l * of_values;
      if (threadIdx.x % 4 == 0) {
        stat[static_cast<size_t>(at.z) * p.Lq + i] = stat_of(all);
      }
      if (!out.data) continue;
      T* const to = row_of(out, at.b, at.h, i);
      const bool pairs = whole_rows(out);
#pragma unroll
      for (int n = 0; n < S::kSums; n += 4) {
        const float2 x{sums[n + 2 * r] * over, sums[n + 2 * r + 1] * over};
        store_pair(to, out.c, column_of_sum(n), Dv, pairs, x);
      }
    }
  }
};

template <class T, int kWidth>
__global__ __launch_bounds__(kDotBlock,
                             1) void attend_dot(const __grid_constant__ AttentionProblem p,
                                                const __grid_constant__ DotViews<T> io,
                                                const __grid_constant__ DotPrepared in,
                                                float* stat) {
#if FOVEA_HOPPER
  using S = ForwardShape<T, kWidth>;
  extern __shared__ __align__(1024) uint8_t shared[];
  if (in.odd[DotHead(p).zk] && queries_see_odd(p, in, first_query(), kDotQueries)) {
    return attend_pairs(p, io, stat, first_query(), kDotQueries);
  }
  const ForwardPlan<T, kWidth> plan(shared);
  const DotTiles tiles(in, S::kKeys);
  if (threadIdx.x == 0) plan.init();
  __syncthreads();
  const int warpgroup = __shfl_sync(kAll, static_cast<int>(threadIdx.x) / 128, 0);
  if (warpgroup == 0) {
    fewer_registers<24>();
    if (threadIdx.x == 0 && tiles.count > 0) copy_forward(in, tiles, DotHead(p).zk, plan);
  } else {
    more_registers<240>();
    ForwardRows<T, kWidth> rows(p, in, tiles, plan, warpgroup - 1);
    float w[S::kScores], s[S::kScores], sums[S::kSums] = {}, fresh[S::kSums];
    if (tiles.count > 0) {
      rows.first(w);
#pragma unroll 1
      for (int j = 1; j < tiles.count; ++j) rows.step(j, w, s, sums, fresh);
      rows.last(w, sums, fresh);
    }
    rows.write(io.out, stat, sums);
  }
#endif
}

}  // namespace fovea::cuda
