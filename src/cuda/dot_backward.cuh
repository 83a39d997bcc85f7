// Dot products on Hopper, backward: one kernel, twice. A block keeps 128 rows of a pair A1, A2 and
// walks a pair B1, B2 in tiles of 64 rows:
//
//   S = A1·B1ᵀ, P = 2^(S − log2 Σ), dP = A2·B2ᵀ, dS = P·(dP + beta); sums of dS·B1 and of P·B2
//
// Where keys stay, A is k, v and B is q, d_context: the sums are dk and dv. Where queries stay, A
// is q, d_context and B is k, v: the first sum is dq, and there is no second. P and dS stay in
// registers and nothing is added across blocks, so that two runs give the same bits; seven products
// instead of the five that sums across blocks would need.
//
// Each tile's sums are sums of their own, added in float32, as in the forward pass. Keys of width
// 128 have no registers for that and go to memory every 8 tiles (every 16: 6 % faster for that
// kernel, errors of 3.9e-6). H200, B 1 H 16 L 4096: keys 631 µs, queries 439 for D 64, 1350 and 815
// for D 128; tensor units 72 to 92 % busy. Taking turns as forward loses 2 to 5 %.
#pragma once

#include <climits>

#include "cuda/dot_forward.cuh"

namespace fovea::cuda {

constexpr int kDotTile = 64;  // rows of a tile that is walked

template <class T, int kWidth, bool kKeysStay>
struct BackwardShape {
  static constexpr int kHalves = kDotHalves<T>, kParts = kHalves * (kWidth / 64);
  static constexpr int kSlots = kHalves == 1 || kWidth == 64 ? 6 : 3;
  static constexpr int kScores = kDotTile / 2, kSums = kWidth / 2;  // registers of a thread
  static constexpr int kStay = kParts * kDotQueries * 128, kTile = kParts * kDotTile * 128;
  // What queries hold, where they are walked: two numbers and a range each, and a note for all.
  static constexpr int kRowSlots = (kSlots + 1) / 2, kRowBytes = kDotTile * 16 + 16;
  // Numbers of 16 bits need no sums of their own for each tile.
  static constexpr bool kOneSum = kKeysStay && kWidth == 128;
  static constexpr int kFlush = kOneSum && kHalves == 2 ? 8 : 0;
  static constexpr bool kFresh = !kOneSum;
  static constexpr int kBarriers = 1 + 2 * kSlots + 2 * kRowSlots;
  static constexpr int kShared =
      2 * kStay + kSlots * kTile + kRowSlots * kRowBytes + 8 * round_up(kBarriers, 16);
};

// Addresses in shared memory; barriers full and empty of slots, and of rows.
template <class T, int kWidth, bool kKeysStay>
struct BackwardPlan {
  using S = BackwardShape<T, kWidth, kKeysStay>;
  uint32_t a1, a2, b, rows, a_full, full, empty, rows_full, rows_empty;
  uint8_t* row_data;
  __device__ explicit BackwardPlan(uint8_t* shared) {
    a1 = shared_address(shared), a2 = a1 + S::kStay, b = a2 + S::kStay;
    rows = b + S::kSlots * S::kTile, a_full = rows + S::kRowSlots * S::kRowBytes;
    row_data = shared + (rows - a1);
    full = a_full + 8, empty = full + 8 * S::kSlots;
    rows_full = empty + 8 * S::kSlots, rows_empty = rows_full + 8 * S::kRowSlots;
  }
  __device__ void init() const {
    barrier_init(a_full, 1);
    for (int i = 0; i < S::kSlots; ++i) {
      barrier_init(full + 8 * i, 1), barrier_init(empty + 8 * i, 8);
    }
    for (int i = 0; i < S::kRowSlots; ++i) {
      barrier_init(rows_full + 8 * i, kDotTile + 1), barrier_init(rows_empty + 8 * i, 256);
    }
    barriers_ready();
  }
};

// The powers of two in which a block computes. dS is bounded by 2·|d_context|·|v| + |d_stat|.
template <class T>
struct DotUnits {
  float q = 1.0f, k = 1.0f, v = 1.0f, d_out = 1.0f, ds = 0x1p-14f;
  __device__ DotUnits(const DotPrepared& in, int zk) {
    if constexpr (kDotHalves<T> == 1) return;
    const auto norm = [&](DotInput of) { return in.norm(of, zk); };
    q = dot_factor(norm(DotInput::queries)), k = dot_factor(norm(DotInput::keys));
    v = dot_factor(norm(DotInput::values)), d_out = dot_factor(norm(DotInput::d_context));
    const float bound =
        2.0f * norm(DotInput::d_context) * norm(DotInput::values) + __uint_as_float(in.d_stat[zk]);
    ds = dot_factor(bound) * 0x1p-14f;
  }
  // Of float32 queries hold the scale.
  __device__ float of_scores(const AttentionProblem& p) const {
    return kDotHalves<T> == 2 ? 1.0f / (q * k) : score_scale(p);
  }
};

// The keys' head of a block.
template <bool kKeysStay>
__device__ __forceinline__ int zk_of(const AttentionProblem& p) {
  const int z = static_cast<int>(blockIdx.x);
  return kKeysStay ? z : z / heads_sharing(p);
}

// The tiles that a block walks: of keys, or of the queries of all heads that share its keys.
template <bool kKeysStay>
struct DotWalk {
  const AttentionProblem& p;
  const DotPrepared& in;
  int head, tile = 0, end = 0;

  // Every thread of a warp comes here and to next().
  __device__ DotWalk(const AttentionProblem& problem, const DotPrepared& prepared)
      : p(problem), in(prepared) {
    if (kKeysStay) {
      head = zk() * heads_sharing(p) - 1;
      settle();
    } else {
      const DotTiles keys(in, kDotTile);
      head = blockIdx.x, tile = keys.first, end = tile + keys.count;
    }
  }
  __device__ static int row() {  // the first that stays
    return kKeysStay ? static_cast<int>(blockIdx.y) * kDotQueries : first_query();
  }
  __device__ int zk() const { return zk_of<kKeysStay>(p); }
  __device__ bool done() const { return tile >= end; }
  __device__ void next() {
    ++tile;
    settle();
  }

 private:
  __device__ void settle() {
    while (kKeysStay && tile >= end && head + 1 < (zk() + 1) * heads_sharing(p)) {
      ++head;
      find_queries();
    }
  }
  // Tiles of queries that may see keys row … row + 128.
  __device__ void find_queries() {
    const int all = parts(static_cast<int>(p.Lq), kDotTile), last = row() + kDotQueries;
    tile = 0, end = all;
    if (!p.begin.data) return;
    const int4* const seen = in.seen + static_cast<size_t>(head) * (in.query_rows / kDotRows);
    int low = all, high = 0;
#pragma unroll 1
    for (int t = threadIdx.x % kWarp; t < all; t += kWarp) {
      const int2 keys = *reinterpret_cast<const int2*>(seen + t);
      if (keys.x < last && keys.y > row()) low = min(low, t), high = max(high, t + 1);
    }
    tile = __reduce_min_sync(kAll, low), end = __reduce_max_sync(kAll, high);
  }
};

// Copies by one warp, whose first lane does them: what stays, then tiles of B1 and B2 by turns.
template <class T, int kWidth, bool kKeysStay>
__device__ __forceinline__ void copy_backward(const DotPrepared& in,
                                              const BackwardPlan<T, kWidth, kKeysStay>& to,
                                              DotWalk<kKeysStay> walk) {
  using S = BackwardShape<T, kWidth, kKeysStay>;
  constexpr auto kStays = kKeysStay ? DotInput::keys : DotInput::queries;
  constexpr int kA1 = static_cast<int>(kStays), kA2 = kKeysStay ? 2 : 3;
  constexpr int kB1 = 1 - kA1, kB2 = 5 - kA2;
  const uint32_t stay_step = 128 * (kKeysStay ? in.key_rows : in.query_rows);
  const uint32_t walk_step = 128 * (kKeysStay ? in.query_rows : in.key_rows);
  const bool copies = threadIdx.x % kWarp == 0;
  if (copies) {
    const size_t from = blockIdx.x * S::kParts * size_t{stay_step} + size_t{128} * walk.row();
    barrier_expect(to.a_full, 2 * S::kStay);
    copy_rows_of<S::kParts, kDotQueries>(in.halves[kA1] + from, stay_step, to.a1, to.a_full);
    copy_rows_of<S::kParts, kDotQueries>(in.halves[kA2] + from, stay_step, to.a2, to.a_full);
  }
#pragma unroll 1
  for (int c = 0; !walk.done(); walk.next(), c += 2) {
    const int z = kKeysStay ? walk.head : walk.zk();
    const size_t from = z * S::kParts * size_t{walk_step} + size_t{128} * kDotTile * walk.tile;
    const auto copy = [&](const uint8_t* tile, int number) {
      const int s = number % S::kSlots;
      barrier_wait(to.empty + 8 * s, (number / S::kSlots & 1) ^ 1);
      barrier_expect(to.full + 8 * s, S::kTile);
      copy_rows_of<S::kParts, kDotTile>(tile, walk_step, to.b + s * S::kTile, to.full + 8 * s);
    };
    if (copies) {
      copy(in.halves[kB1] + from, c);
      copy(in.halves[kB2] + from, c + 1);
    }
    __syncwarp();
  }
}

// Of a tile of queries: whether there is one, and the keys that all of them may see.
struct TileNote {
  int there, begin, end, unused;
};

// What queries hold, by 64 threads, with ordinary stores.
template <class T, int kWidth>
__device__ __forceinline__ void copy_rows(const DotPrepared& in,
                                          const BackwardPlan<T, kWidth, true>& to,
                                          DotWalk<true> walk, int thread) {
  using S = BackwardShape<T, kWidth, true>;
  const float unit = DotUnits<T>(in, walk.zk()).ds;
#pragma unroll 1
  for (int j = 0; !walk.done(); walk.next(), ++j) {
    const int s = j % S::kRowSlots;
    const size_t at = static_cast<size_t>(walk.head) * in.query_rows + walk.tile * kDotTile;
    const float4 row = in.rows[at + thread];
    barrier_wait(to.rows_empty + 8 * s, (j / S::kRowSlots & 1) ^ 1);
    float2* const numbers = reinterpret_cast<float2*>(to.row_data + s * S::kRowBytes);
    numbers[thread] = {row.x, row.y * unit};
    numbers[kDotTile + thread] = {row.z, row.w};
    barrier_arrive(to.rows_full + 8 * s);
  }
}

// Notes on them, by a warp: those who compute walk by these. The last says that there is no more.
template <class T, int kWidth>
__device__ __forceinline__ void write_notes(const DotPrepared& in,
                                            const BackwardPlan<T, kWidth, true>& to,
                                            DotWalk<true> walk) {
  using S = BackwardShape<T, kWidth, true>;
  const bool writes = threadIdx.x % kWarp == 0;
#pragma unroll 1
  for (int j = 0, there = 1; there; ++j) {
    const int s = j % S::kRowSlots;
    there = !walk.done();
    TileNote note{there, 0, INT_MAX, 0};
    if (there && walk.p.begin.data) {
      const size_t tile = static_cast<size_t>(walk.head) * (in.query_rows / kDotRows) + walk.tile;
      note.begin = in.seen[tile].z, note.end = in.seen[tile].w;
    }
    if (writes) {
      barrier_wait(to.rows_empty + 8 * s, (j / S::kRowSlots & 1) ^ 1);
      *reinterpret_cast<TileNote*>(to.row_data + s * S::kRowBytes + kDotTile * 16) = note;
    }
    // After the last there are no rows: those threads' arrivals, too.
    for (int n = there ? kDotTile : 0; n <= kDotTile && writes; ++n) {
      barrier_arrive(to.rows_full + 8 * s);
    }
    __syncwarp();
    if (there) walk.next();
  }
}

// One warpgroup's 64 rows.
template <class T, int kWidth, bool kKeysStay>
struct BackwardRows {
  using S = BackwardShape<T, kWidth, kKeysStay>;
  const AttentionProblem& p;
  const DotPrepared& in;
  const BackwardPlan<T, kWidth, kKeysStay>& plan;
  float unit, of_dp;
  float2 of_row[2];  // where queries stay: what they hold
  Range all_see;     // and what all of the warp may see

  __device__ BackwardRows(const AttentionProblem& problem, const DotPrepared& prepared,
                          const BackwardPlan<T, kWidth, kKeysStay>& shared)
      : p(problem), in(prepared), plan(shared) {
    const int zk = zk_of<kKeysStay>(p);
    const DotUnits<T> units(in, zk);
    unit = units.of_scores(p), of_dp = units.ds / (units.d_out * units.v);
    if constexpr (!kKeysStay) {
      const Range keys[2] = {range(0), range(1)};
      of_row[0] = {row_at(0).x, row_at(0).y * units.ds};
      of_row[1] = {row_at(1).x, row_at(1).y * units.ds};
      all_see = {__reduce_max_sync(kAll, max(keys[0].begin, keys[1].begin)),
                 __reduce_min_sync(kAll, min(keys[0].end, keys[1].end))};
    }
  }

  // The thread, found anew each time, for want of registers; which warpgroup, and its first row.
  __device__ __forceinline__ static int thread() {
    int x;
    asm volatile("mov.u32 %0,%%tid.x;" : "=r"(x));
    return x;
  }
  __device__ __forceinline__ static int group() { return thread() / 128 - 1; }
  __device__ __forceinline__ static int row() {
    const int x = thread() - 128;
    return DotWalk<kKeysStay>::row() + x / kWarp * 16 + x % kWarp / 4;
  }

  // Where queries stay: what one of the two holds.
  __device__ __forceinline__ float4 row_at(int r) const {
    return in.rows[static_cast<size_t>(blockIdx.x) * in.query_rows + row() + r * 8];
  }
  __device__ __forceinline__ Range range(int r) const {
    return {__float_as_int(row_at(r).z), __float_as_int(row_at(r).w)};
  }

  __device__ __forceinline__ void release(uint32_t barrier) const {
    __syncwarp();
    if (threadIdx.x % kWarp == 0) barrier_arrive(barrier);
  }
  // What the two columns of a thread's numbers i … i + 3 hold; second: their ranges.
  __device__ __forceinline__ float4 of_columns(int slot, int i, bool second = false) const {
    return load_shared(plan.rows + slot * S::kRowBytes + second * kDotTile * 8 +
                       column_of_sum(i) * 8);
  }

  // A[64×width]·B[64×width]ᵀ of a slot, A the first or the second that stays.
  __device__ __forceinline__ void products(float (&s)[S::kScores], uint32_t stays, int slot) const {
    dot_products<T, kWidth, kDotQueries, kDotTile>(s, matrix_at(stays + group() * 64 * 128),
                                                   matrix_at(plan.b + slot * S::kTile));
  }
  __device__ __forceinline__ uint32_t across(int slot) const {
    return matrix_at(plan.b + slot * S::kTile, kDotTile * 128);
  }

  // Whether a tile needs care: pairs that are forbidden, for this warp, or something not finite.
  __device__ __forceinline__ bool cuts(int tile) const {
    return tile * kDotTile < all_see.begin || (tile + 1) * kDotTile > all_see.end;
  }
  __device__ __forceinline__ bool cuts(const TileNote& note) const {
    const int first = row() / 16 * 16;
    return first < note.begin || min(first + 16, static_cast<int>(p.Lk)) > note.end;
  }
  // Of step j, once it is there.
  __device__ __forceinline__ TileNote note(int j) const {
    const int slot = j % S::kRowSlots;
    barrier_wait(plan.rows_full + 8 * slot, j / S::kRowSlots & 1);
    const float4 x = load_shared(plan.rows + slot * S::kRowBytes + kDotTile * 16);
    return {__float_as_int(x.x), __float_as_int(x.y), __float_as_int(x.z), 0};
  }

  // S becomes P; what is forbidden is 0, whatever its row holds.
  __device__ __forceinline__ void weigh(float (&s)[S::kScores], int slot, int tile,
                                        bool careful) const {
#pragma unroll
    for (int i = 0; i < S::kScores; i += 4) {
      const float4 two = kKeysStay ? of_columns(slot, i) : float4{};
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float base = !kKeysStay ? of_row[row_of_sum(e)].x : e % 2 ? two.z : two.x;
        s[i + e] = exp2_of(fmaf(s[i + e], unit, base));
      }
    }
    if (!careful) return;
    Range keys[2];
    const int mine = row();
    if constexpr (!kKeysStay) keys[0] = range(0), keys[1] = range(1);
#pragma unroll
    for (int i = 0; i < S::kScores; i += 4) {
      const float4 two = kKeysStay ? of_columns(slot, i, true) : float4{};
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        Range seen = keys[row_of_sum(e)];
        int key = tile * kDotTile + column_of_sum(i + e);
        if constexpr (kKeysStay) {
          seen = {__float_as_int(e % 2 ? two.z : two.x), __float_as_int(e % 2 ? two.w : two.y)};
          key = mine + row_of_sum(e) * 8;
        }
        if (key < seen.begin || key >= seen.end) s[i + e] = 0.0f;
      }
    }
  }

  // dP becomes dS.
  __device__ __forceinline__ void gradients(float (&dp)[S::kScores], const float (&w)[S::kScores],
                                            int slot, bool careful) const {
#pragma unroll
    for (int i = 0; i < S::kScores; i += 4) {
      const float4 two = kKeysStay ? of_columns(slot, i) : float4{};
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float beta = !kKeysStay ? of_row[row_of_sum(e)].y : e % 2 ? two.w : two.y;
        dp[i + e] = w[i + e] * fmaf(dp[i + e], of_dp, beta);
      }
    }
    if (!careful) return;
#pragma unroll
    for (int i = 0; i < S::kScores; ++i) {
      if (w[i] == 0.0f) dp[i] = 0.0f;
    }
  }

  // Two rows of sums into memory; `more` to what is there.
  __device__ __forceinline__ void write(const View<T>& to, int n, float factor,
                                        const float (&sums)[S::kSums], bool more) const {
    if (!to.data) return;
    const int heads = static_cast<int>(kKeysStay ? p.Hk : p.H), z = blockIdx.x, first = row();
    const int L = static_cast<int>(kKeysStay ? p.Lk : p.Lq);
    T* const at = row_of(to, z / heads, z % heads, first);
    const int rows = first + 8 < L ? 2 : first < L ? 1 : 0;
    if (n == kWidth && rows == 2 && whole_rows(to)) {
      return write_whole(at, to.r * 8, factor, sums, more);
    }
#pragma unroll
    for (int i = 0; i < S::kSums; ++i) {
      if (row_of_sum(i) >= rows || column_of_sum(i) >= n) continue;
      T* const one = at + row_of_sum(i) * 8 * to.r + column_of_sum(i) * to.c;
      const float there = S::kFlush && more ? static_cast<float>(*one) : 0.0f;
      *one = static_cast<T>(fmaf(sums[i], factor, there));
    }
  }
  __device__ __forceinline__ void write_whole(bf16* at, int64_t other_row, float factor,
                                              const float (&sums)[S::kSums], bool) const {
#pragma unroll
    for (int i = 0; i < S::kSums; i += 2) {
      *reinterpret_cast<uint32_t*>(at + row_of_sum(i) * other_row + column_of_sum(i)) =
          narrow2(sums[i] * factor, sums[i + 1] * factor);
    }
  }
  // Many loads at once: one after the other each would cost its latency.
  __device__ __forceinline__ void write_whole(float* at, int64_t other_row, float factor,
                                              const float (&sums)[S::kSums], bool more) const {
    const auto place = [&](int i) {
      return reinterpret_cast<float2*>(at + row_of_sum(i) * other_row + column_of_sum(i));
    };
#pragma unroll
    for (int part = 0; part < S::kSums; part += 32) {
      float2 x[16];
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        x[i] = S::kFlush && more ? *place(part + 2 * i) : float2{};
      }
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        const int s = part + 2 * i;
        *place(s) = {fmaf(sums[s], factor, x[i].x), fmaf(sums[s + 1], factor, x[i].y)};
      }
    }
  }
};

// One tile: its scores and dP, weights and dS, and sums of those.
template <class T, int kWidth, bool kKeysStay>
struct BackwardStep {
  using S = BackwardShape<T, kWidth, kKeysStay>;
  using Rows = BackwardRows<T, kWidth, kKeysStay>;
  float s[S::kScores], dp[S::kScores];
  float ds_sums[S::kSums], w_sums[kKeysStay ? S::kSums : 2];
  float ds_fresh[S::kFresh ? S::kSums : 2], w_fresh[S::kFresh && kKeysStay ? S::kSums : 2];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < S::kSums; ++i) {
      ds_sums[i] = 0.0f;
      if constexpr (kKeysStay) w_sums[i] = 0.0f;
    }
  }

  // Step j; `tile` of keys is needed where those are walked.
  __device__ __forceinline__ void scores(const Rows& rows, int j, int tile, bool careful) {
    const auto& plan = rows.plan;
    const int x1 = 2 * j % S::kSlots, x2 = (2 * j + 1) % S::kSlots;
    const int slot = j % S::kRowSlots;
    barrier_wait(plan.full + 8 * x1, 2 * j / S::kSlots & 1);
    products_fence();
    rows.products(s, plan.a1, x1);
    barrier_wait(plan.full + 8 * x2, (2 * j + 1) / S::kSlots & 1);
    rows.products(dp, plan.a2, x2);
    products_wait<1>();
    pin(s);
    rows.weigh(s, slot, tile, careful);
    // Already there: the branch keeps ptxas from waiting before the weights.
    barrier_wait(plan.full + 8 * x2, (2 * j + 1) / S::kSlots & 1);
    products_wait<0>();
    pin(dp);
    rows.gradients(dp, s, slot, careful);
    if constexpr (kKeysStay) {
      barrier_arrive(plan.rows_empty + 8 * slot);
    } else {
      rows.release(plan.empty + 8 * x2);
    }
  }

  // A tile's sum is on its way: fresh, or onto the others.
  template <int kSums, int kOther>
  __device__ __forceinline__ static void start(float (&sums)[kSums], float (&fresh)[kOther],
                                               const float (&w)[S::kScores], uint32_t b) {
    if constexpr (S::kFresh) {
      add_products<T, kWidth, kDotTile>(fresh, w, b, false);
    } else {
      add_products<T, kWidth, kDotTile>(sums, w, b, true);
    }
  }
  template <int kSums, int kOther>
  __device__ __forceinline__ static void finish(float (&sums)[kSums], float (&fresh)[kOther]) {
    if constexpr (S::kFresh) {
      pin(fresh);
#pragma unroll
      for (int i = 0; i < kSums; ++i) sums[i] += fresh[i];
    } else {
      pin(sums);
    }
  }

  __device__ __forceinline__ void sums(const Rows& rows, int j) {
    const auto& plan = rows.plan;
    asm volatile("" : "+r"(j));  // slots are found anew, for want of registers
    const int x1 = 2 * j % S::kSlots, x2 = (2 * j + 1) % S::kSlots;
    if constexpr (kKeysStay) {
      split_fragments<T>(s);
      products_fence();
      pin(s);
      start(w_sums, w_fresh, s, rows.across(x2));
    }
    split_fragments<T>(dp);
    products_fence();
    pin(dp);
    start(ds_sums, ds_fresh, dp, rows.across(x1));
    if constexpr (kKeysStay) {
      products_wait<1>();
      pin(s);
      rows.release(plan.empty + 8 * x2);
      finish(w_sums, w_fresh);
    }
    products_wait<0>();
    pin(dp);
    rows.release(plan.empty + 8 * x1);
    finish(ds_sums, ds_fresh);
  }

  // After j steps.
  __device__ __forceinline__ void write(const Rows& rows, const DotViews<T>& out, int j) {
    const bool more = j > S::kFlush;
    const AttentionProblem& p = rows.p;
    const DotUnits<T> u(rows.in, zk_of<kKeysStay>(p));
    const int D = static_cast<int>(p.D), Dv = static_cast<int>(p.Dv);
    const float ds = 0x1p-14f / u.ds;
    if constexpr (kKeysStay) {  // of float32 q holds scale·log2(e)/T
      const float of_q = S::kHalves == 2 ? kLn2 / u.q : p.scale / p.temperature;
      rows.write(out.dk, D, of_q * ds, ds_sums, more);
      rows.write(out.dv, Dv, 0x1p-14f / u.d_out, w_sums, more);
    } else {
      rows.write(out.dq, D, p.scale / p.temperature * ds / u.k, ds_sums, more);
    }
    clear();
  }
};

template <class T, int kWidth, bool kKeysStay>
__device__ __forceinline__ void compute_gradients(BackwardRows<T, kWidth, kKeysStay>& rows,
                                                  const DotViews<T>& out) {
  using S = BackwardShape<T, kWidth, kKeysStay>;
  BackwardStep<T, kWidth, kKeysStay> step;
  step.clear();
  barrier_wait(rows.plan.a_full, 0);
  int j = 0;
  if constexpr (kKeysStay) {
#pragma unroll 1
    for (;; ++j) {
      const TileNote note = rows.note(j);
      if (!note.there) break;
      if (S::kFlush && j > 0 && j % max(S::kFlush, 1) == 0) step.write(rows, out, j);
      step.scores(rows, j, 0, rows.cuts(note));
      step.sums(rows, j);
    }
  } else {
    const DotTiles keys(rows.in, kDotTile);
#pragma unroll 1
    for (; j < keys.count; ++j) {
      step.scores(rows, j, keys.first + j, rows.cuts(keys.first + j));
      step.sums(rows, j);
    }
  }
  step.write(rows, out, j);
}

template <class T, int kWidth, bool kKeysStay>
__global__ __launch_bounds__(kDotBlock,
                             1) void dot_gradients(const __grid_constant__ AttentionProblem p,
                                                   const __grid_constant__ DotViews<T> io,
                                                   const __grid_constant__ DotPrepared in) {
#if FOVEA_HOPPER
  using S = BackwardShape<T, kWidth, kKeysStay>;
  extern __shared__ __align__(1024) uint8_t shared[];
  if (in.odd[zk_of<kKeysStay>(p)]) {
    const int first = DotWalk<kKeysStay>::row();
    if constexpr (kKeysStay) {
      if (keys_see_odd(p, in, first, kDotQueries)) {
        return pair_gradients_of_keys(p, io, in, first, kDotQueries);
      }
    } else {
      if (queries_see_odd(p, in, first, kDotQueries)) {
        return pair_gradients_of_queries(p, io, in, first, kDotQueries);
      }
    }
  }
  const BackwardPlan<T, kWidth, kKeysStay> plan(shared);
  if (threadIdx.x == 0) plan.init();
  __syncthreads();
  const int warpgroup = __shfl_sync(kAll, static_cast<int>(threadIdx.x) / 128, 0);
  if (warpgroup == 0) {
    fewer_registers<24>();
    const int thread = threadIdx.x - kWarp;
    if (thread < 0) {
      copy_backward(in, plan, DotWalk<kKeysStay>(p, in));
    } else if (thread < kDotTile) {
      if constexpr (kKeysStay) copy_rows(in, plan, DotWalk<true>(p, in), thread);
    } else {
      if constexpr (kKeysStay) write_notes(in, plan, DotWalk<true>(p, in));
    }
  } else {
    more_registers<240>();
    BackwardRows<T, kWidth, kKeysStay> rows(p, in, plan);
    compute_gradients(rows, io);
  }
#endif
}

}  // namespace fovea::cuda
