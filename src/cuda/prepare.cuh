// The long path, first kernel: what the others read, made once a call. Bound by memory: each input
// is read once (H200, B 8 L 1024 A 256: 17 µs of 386 forward, 23 of 1117 backward).
//
// X and Y as additive.cuh has them, or q and k of dot products; v and d_context as bfloat16, high
// and low part; and the largest |X| and Y of 32 rows, from which the score kernel knows how many
// terms may share a reciprocal. What is NaN is noted apart, so that it reaches the rows which see
// it and no other: X and Y, and v and d_context, are always finite.
#pragma once

#include "cuda/additive.cuh"

namespace fovea::cuda {

constexpr int kTileRows = 128, kTileKeys = 128;  // of a tile of scores
constexpr int kPart = 32;                        // rows of a block here
constexpr int kPrepareThreads = 256, kPrepareWarps = kPrepareThreads / kWarp;
constexpr int kPrepareRows = kPart / kPrepareWarps;  // of a warp

struct Prepared {
  float *x, *y;            // [B·H][Lq][width], [B·Hk][Lk][width]; pairs of features swapped in y
  float *x_most, *y_most;  // [B·H][parts of Lq][width], [B·Hk][parts of Lk][width]
  float *x_nan, *y_nan;    // [B·H][Lq], [B·Hk][Lk]: 0, or NaN where the row has one
  Extent *q_extent, *k_extent;  // [B·H][parts of Lq], [B·Hk][parts of Lk]
  int4* range;      // [B·H][tiles of queries]: keys x … y that some row of the tile may see,
                    // keys z … w that every row may see
  float* constant;  // [width]: c
  float* line;      // offset, factor, the bound for q and k
  bf16 *v, *d_out;  // high parts, then low ones: 2 × [rows][value_width]
  bf16 *q, *k;      // dot products backward: 2 × [rows][half_width]
  uint8_t *v_bad, *d_bad;              // [rows]: something there is not finite
  float* beta;                         // [B·H][Lq]: d_stat − d_context·context
  int width, value_width, half_width;  // D to 64, Dv and D to 8, rounded up
  int query_tiles;
  int query_parts, key_parts;
  float unit;  // of scores: log 2 is 1, or 1 is 1
};

// X or Y of 32 rows, 4 a warp, four features a lane. What comes next is on its way meanwhile.
template <bool kQueries>
__device__ void prepare_exponentials(const AttentionProblem& p, const Prepared& to, int z,
                                     int part) {
  __shared__ float4 largest[2][kPrepareWarps][kWarp];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, width = to.width;
  const int heads = static_cast<int>(kQueries ? p.H : p.Hk);
  const int L = static_cast<int>(kQueries ? p.Lq : p.Lk), D = static_cast<int>(p.D);
  const View<const float>& in = kQueries ? p.q : p.k;
  const bool whole = whole_rows(in);
  const int first = part * kPart + warp * kPrepareRows;
  const float* rows = row_of(in, z / heads, z % heads, 0);
  float* const out = (kQueries ? to.x : to.y) + static_cast<size_t>(z) * L * width;
  const int all = kQueries ? to.query_parts : to.key_parts;
  float* const most_of =
      (kQueries ? to.x_most : to.y_most) + (static_cast<size_t>(z) * all + part) * width;
  float4 next[kPrepareRows];
  const auto load = [&](int f) {
#pragma unroll
    for (int r = 0; r < kPrepareRows && f < width; ++r) {
      next[r] = load4(rows + min(first + r, L - 1) * in.r, in.c, f, D, whole);
    }
  };
  load(lane * 4);
  const float most = kQueries ? weight_sums(p).most : 1.0f;
  const auto constant = [&](int a) { return a < D ? constant_of(p, a, most) : 0.0f; };
  uint32_t nan_rows = 0;
  Extent extent{-infinity(), infinity()};
  int buffer = 0;
  for (int f = lane * 4; f - lane * 4 < width; f += 4 * kWarp, buffer ^= 1) {
    float4 top{};
    if (f < width) {
      float4 now[kPrepareRows], c{};
#pragma unroll
      for (int r = 0; r < kPrepareRows; ++r) now[r] = next[r];
      load(f + 4 * kWarp);
      if (kQueries) c = {constant(f), constant(f + 1), constant(f + 2), constant(f + 3)};
#pragma unroll
      for (int r = 0; r < kPrepareRows; ++r) {
        if (first + r >= L) break;
        const float4 a = now[r];
        if (a.x != a.x || a.y != a.y || a.z != a.z || a.w != a.w) nan_rows |= 1u << r;
        extent = both(extent, {fmaxf(fmaxf(a.x, a.y), fmaxf(a.z, a.w)),
                               fminf(fminf(a.x, a.y), fminf(a.z, a.w))});
        float4 e{exp_twice(a.x), exp_twice(a.y), exp_twice(a.z), exp_twice(a.w)};
        if (kQueries) {
          const auto times = [](float x, float w) { return fmaxf(fminf(x * w, 3e38f), -3e38f); };
          e = {times(e.x, c.x), times(e.y, c.y), times(e.z, c.z), times(e.w, c.w)};
        }
        top = {fmaxf(top.x, fabsf(e.x)), fmaxf(top.y, fabsf(e.y)), fmaxf(top.z, fabsf(e.z)),
               fmaxf(top.w, fabsf(e.w))};
        *reinterpret_cast<float4*>(out + static_cast<size_t>(first + r) * width + f) =
            kQueries ? e : float4{e.y, e.x, e.w, e.z};
      }
    }
    largest[buffer][warp][lane] = top;
    __syncthreads();
    if (warp == 0 && f < width) {
#pragma unroll
      for (int w = 1; w < kPrepareWarps; ++w) {
        const float4 o = largest[buffer][w][lane];
        top = {fmaxf(top.x, o.x), fmaxf(top.y, o.y), fmaxf(top.z, o.z), fmaxf(top.w, o.w)};
      }
      *reinterpret_cast<float4*>(most_of + f) = top;
    }
  }
#pragma unroll
  for (int r = 0; r < kPrepareRows; ++r) {
    const bool bad = __any_sync(kAll, nan_rows >> r & 1u);
    if (lane == 0 && first + r < L) {
      (kQueries ? to.x_nan : to.y_nan)[static_cast<size_t>(z) * L + first + r] =
          bad ? not_a_number() : 0.0f;
    }
  }
  __shared__ Extent of_warps[kPrepareWarps];
  extent = {warp_max(extent.most), -warp_max(-extent.least)};
  if (lane == 0) of_warps[warp] = extent;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < kPrepareWarps; ++w) extent = both(extent, of_warps[w]);
  (kQueries ? to.q_extent : to.k_extent)[static_cast<size_t>(z) * all + part] = extent;
}

// The keys that the rows of a tile may see: some of them, and all of them.
__device__ inline void prepare_range(const AttentionProblem& p, const Prepared& to, int z,
                                     int tile) {
  __shared__ int4 range;
  const int Lk = static_cast<int>(p.Lk);
  int4* const out = to.range + static_cast<size_t>(z) * to.query_tiles + tile;
  if (!p.begin.data) {
    if (threadIdx.x == 0) *out = {0, Lk, 0, Lk};
    return;
  }
  if (threadIdx.x == 0) range = {Lk, 0, 0, Lk};
  __syncthreads();
  const int i = tile * kTileRows + static_cast<int>(threadIdx.x), H = static_cast<int>(p.H);
  if (threadIdx.x < kTileRows && i < p.Lq) {
    const Range keys = range_of(p, z / H, z % H, i);
    if (keys.begin < keys.end) {
      atomicMin(&range.x, keys.begin);
      atomicMax(&range.y, keys.end);
    }
    atomicMax(&range.z, keys.begin);
    atomicMin(&range.w, keys.end);
  }
  __syncthreads();
  if (threadIdx.x == 0) *out = range;
}

// Rows of v, or of d_context with its product with the context.
template <bool kValues>
__device__ void prepare_split(const AttentionProblem& p, const AttentionGradients& g,
                              const Prepared& to, int z, int part) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, width = to.value_width;
  const int heads = static_cast<int>(kValues ? p.Hk : p.H), Dv = static_cast<int>(p.Dv);
  const int L = static_cast<int>(kValues ? p.Lk : p.Lq), b = z / heads, h = z % heads;
  const View<const float>& in = kValues ? p.v : g.d_context;
  const size_t low = static_cast<size_t>(p.B) * heads * L * width;
  bf16* const out = kValues ? to.v : to.d_out;
  const bool whole = whole_rows(in), whole_context = !kValues && whole_rows(g.context);
  const int first = part * kPart + warp * kPrepareRows;
  uint32_t bad_rows = 0, other_rows = 0;  // with something not finite; with a context that is not 0
  float dot[kPrepareRows] = {};
  for (int d = lane * 4; d < width; d += 4 * kWarp) {
    float4 now[kPrepareRows], context[kPrepareRows];
#pragma unroll
    for (int r = 0; r < kPrepareRows; ++r) {
      const int row = min(first + r, L - 1);
      now[r] = load4(row_of(in, b, h, row), in.c, d, Dv, whole);
      if (kValues) continue;
      context[r] = load4(row_of(g.context, b, h, row), g.context.c, d, Dv, whole_context);
    }
#pragma unroll
    for (int r = 0; r < kPrepareRows; ++r) {
      if (first + r >= L) break;
      float4 a = now[r];
      const size_t at = (static_cast<size_t>(z) * L + first + r) * width + d;
      const bool good = finite(a.x) && finite(a.y) && finite(a.z) && finite(a.w);
      uint2 high_part, low_part;
      const auto kept = [](float x) { return finite(x) ? x : 0.0f; };
      split(kept(a.x), kept(a.y), high_part.x, low_part.x);
      split(kept(a.z), kept(a.w), high_part.y, low_part.y);
      *reinterpret_cast<uint2*>(out + at) = high_part;
      *reinterpret_cast<uint2*>(out + low + at) = low_part;
      if (!good) bad_rows |= 1u << r;
      if (kValues) continue;
      // The product of what is multiplied later: then its rounding is a small change of d_context,
      // and not of the difference of what is nearly equal.
      if (good) {
        const float2 two = joined(high_part.x, low_part.x), last = joined(high_part.y, low_part.y);
        a = {two.x, two.y, last.x, last.y};
      }
      const float4 c = context[r];
      dot[r] += a.x * c.x + a.y * c.y + a.z * c.z + a.w * c.w;
      if (c.x != 0.0f || c.y != 0.0f || c.z != 0.0f || c.w != 0.0f) other_rows |= 1u << r;
    }
  }
#pragma unroll
  for (int r = 0; r < kPrepareRows; ++r) {
    const size_t at = static_cast<size_t>(z) * L + first + r;
    const bool bad = __any_sync(kAll, bad_rows >> r & 1u);
    const bool zero =
        !__any_sync(kAll, other_rows >> r & 1u);  // sees nothing, whatever its gradient
    const float sum = kValues ? 0.0f : warp_sum(dot[r]);
    if (lane != 0 || first + r >= L) continue;
    (kValues ? to.v_bad : to.d_bad)[at] = bad;
    if (!kValues) to.beta[at] = (g.d_stat ? g.d_stat[at] : 0.0f) - (zero ? 0.0f : sum);
  }
}

// Queries times scale/T as x, or keys as y; and both as halves, where those are wanted. A score
// that is not finite is one pair's alone, so that nothing needs to be noted.
template <bool kQueries>
__device__ void prepare_factors(const AttentionProblem& p, const Prepared& to, int z, int part) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, D = static_cast<int>(p.D);
  const int heads = static_cast<int>(kQueries ? p.H : p.Hk);
  const int L = static_cast<int>(kQueries ? p.Lq : p.Lk);
  const View<const float>& in = kQueries ? p.q : p.k;
  const bool whole = whole_rows(in);
  const float factor = kQueries ? p.scale / p.temperature : 1.0f;
  float* const out = kQueries ? to.x : to.y;
  bf16* const halves = kQueries ? to.q : to.k;
  const size_t low = static_cast<size_t>(p.B) * heads * L * to.half_width;
  for (int n = 0; n < kPrepareRows; ++n) {
    const int r = part * kPart + warp * kPrepareRows + n;
    if (r >= L) break;
    const float* const from = row_of(in, z / heads, z % heads, r);
    const size_t row = static_cast<size_t>(z) * L + r;
    for (int d = lane * 4; d < to.width; d += 4 * kWarp) {
      const float4 a = load4(from, in.c, d, D, whole);
      *reinterpret_cast<float4*>(out + row * to.width + d) =
          kQueries ? float4{a.x * factor, a.y * factor, a.z * factor, a.w * factor}
                   : float4{a.y, a.x, a.w, a.z};
      if (!halves || d >= to.half_width) continue;
      uint2 high_part, low_part;
      const auto kept = [](float x) { return finite(x) ? x : 0.0f; };
      split(kept(a.x), kept(a.y), high_part.x, low_part.x);
      split(kept(a.z), kept(a.w), high_part.y, low_part.y);
      *reinterpret_cast<uint2*>(halves + row * to.half_width + d) = high_part;
      *reinterpret_cast<uint2*>(halves + low + row * to.half_width + d) = low_part;
    }
    if (lane == 0) (kQueries ? to.x_nan : to.y_nan)[row] = 0.0f;
  }
}

// What the additive score needs of its weights, by the first block.
__device__ inline void prepare_weights(const AttentionProblem& p, const Prepared& to) {
  const int D = static_cast<int>(p.D);
  const WeightSums u = weight_sums(p);
  for (int a = threadIdx.x; a < to.width; a += blockDim.x) {
    to.constant[a] = a < D ? constant_of(p, a, u.most) : kPadding;
  }
  const float2 line = line_of(u, round_up(D, 4) - D);
  if (threadIdx.x == 0) to.line[0] = line.x, to.line[1] = line.y, to.line[2] = u.far;
}

// One block for 32 rows: of q, of k, of v and, backward, of d_context.
template <Family kFamily>
__global__ __launch_bounds__(kPrepareThreads,
                             2) void prepare(const __grid_constant__ AttentionProblem p,
                                             const __grid_constant__ AttentionGradients g,
                                             const __grid_constant__ Prepared to) {
  constexpr bool kDot = kFamily == Family::dot;
  const int queries = static_cast<int>(p.B * p.H) * to.query_parts;
  const int keys = static_cast<int>(p.B * p.Hk) * to.key_parts;
  int job = blockIdx.x;
  if (job < queries) {
    const int z = job / to.query_parts, part = job % to.query_parts;
    if (part % (kTileRows / kPart) == 0) prepare_range(p, to, z, part / (kTileRows / kPart));
    if constexpr (kDot) {
      if (job == 0 && threadIdx.x == 0) to.line[0] = 0.0f, to.line[1] = 1.0f;
      return prepare_factors<true>(p, to, z, part);
    }
    prepare_exponentials<true>(p, to, z, part);
    if (job > 0) return;
    __syncthreads();
    return prepare_weights(p, to);
  }
  job -= queries;
  if (job < keys) {
    const int z = job / to.key_parts, part = job % to.key_parts;
    return kDot ? prepare_factors<false>(p, to, z, part)
                : prepare_exponentials<false>(p, to, z, part);
  }
  job -= keys;
  if (job < keys) return prepare_split<true>(p, g, to, job / to.key_parts, job % to.key_parts);
  job -= keys;
  prepare_split<false>(p, g, to, job / to.query_parts, job % to.query_parts);
}

}  // namespace fovea::cuda
