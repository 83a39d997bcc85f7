// The short path: few keys, so a block of 16 warps has all scores of kRows query rows in shared
// memory. Lanes go over features, keys are read straight from memory and e^{2k} is made on the way,
// four keys a warp at a time; the formula is that of additive.cuh. Two terms share a reciprocal
// where no x of the four keys can pass 1e18, else each has its own; where queries and keys are far
// apart, terms come from q + k.
#pragma once

#include "cuda/additive.cuh"

namespace fovea::cuda {

constexpr int kShortThreads = 512, kShortWarps = kShortThreads / kWarp;
constexpr int kShortKeys = 4;  // a warp's, at a time

// q, k, v and d_context of p have rows that can be read four numbers at a time, zeros at their
// ends, and lie less than 2³¹ numbers from the first of their head.
struct ShortCall {
  AttentionProblem p;
  int width, value_width;  // D and Dv, rounded up to 4
  int lanes_width;         // D rounded up to 128: a float4 for each lane
  int padded_keys;         // Lk rounded up to 4
};

// Sums N values over the warp by halves: 2N shuffles in all instead of 5N. Lane l ends with kKept
// of the sums; index() says which, −1 for none.
template <int N>
struct WarpSums {
  static constexpr int k1 = (N + 1) / 2, k2 = (k1 + 1) / 2, k3 = (k2 + 1) / 2, k4 = (k3 + 1) / 2;
  static constexpr int kKept = (k4 + 1) / 2;

  template <int n, int half, int kLane>
  static __device__ __forceinline__ void step(float (&v)[N], int lane) {
    const bool upper = lane & kLane;
#pragma unroll
    for (int k = 0; k < half; ++k) {
      const float a = v[k], b = k + half < n ? v[k + half < n ? k + half : 0] : 0.0f;
      v[k] = (upper ? b : a) + __shfl_xor_sync(kAll, upper ? a : b, kLane);
    }
  }
  static __device__ __forceinline__ void run(float (&v)[N], int lane) {
    step<N, k1, 16>(v, lane);
    step<k1, k2, 8>(v, lane);
    step<k2, k3, 4>(v, lane);
    step<k3, k4, 2>(v, lane);
    step<k4, kKept, 1>(v, lane);
  }
  static __device__ __forceinline__ int index(int k, int lane) {
    int i = k;
    bool there = true;
    const auto back = [&](int bit, int half, int n) {
      if (lane & bit) i += half;
      there = there && i < n;
    };
    back(1, kKept, k4);
    back(2, k4, k3);
    back(4, k3, k2);
    back(8, k2, k1);
    back(16, k1, N);
    return there ? i : -1;
  }
};

// e^{2x} of what is no larger than 40; NaN stays.
__device__ __forceinline__ float exp_twice_or_nan(float x) {
  return exp2_of(at_most(x, kFarthest) * (2.0f * kLog2e));
}

// The largest k for which X·e^{2k} < 1e18.
__device__ __forceinline__ float limit_of(float x) {
  return x > 0.0f ? log2f(1e18f / x) * (0.5f * kLn2) : infinity();
}

// What a block keeps of its rows.
template <int kRows>
struct ShortRows {
  float* x;         // [kRows][lanes_width]: X
  float* constant;  // [lanes_width]: c
  float* limit;     // [lanes_width]: the largest k for which two x may be multiplied
  float* e;         // [kRows][padded_keys]: scores in units of log 2
  static __host__ __device__ size_t floats(const ShortCall& s, int x_floats) {
    return static_cast<size_t>(x_floats) + 2 * s.lanes_width + kRows * s.padded_keys;
  }
  // x has room for x_floats, at least kRows·lanes_width.
  __device__ float* lay(const ShortCall& s, float* base, int x_floats) {
    x = base;
    constant = x + x_floats;
    limit = constant + s.lanes_width;
    e = limit + s.lanes_width;
    return e + kRows * s.padded_keys;
  }
};

// Of the block's rows: their ranges, and all of those together; how far q goes, and may.
template <int kRows>
struct ShortRanges {
  Range rows[kRows], all;
  Extent queries;
  float far;
  __device__ bool some_far() const { return queries.most > far || queries.least < -far; }
};

// Where a block is.
struct ShortAt {
  int z, b, h, hk, i0, rows;
};
template <int kRows>
__device__ __forceinline__ ShortAt short_at(const AttentionProblem& p, int z, int i0) {
  const int H = static_cast<int>(p.H), h = z % H;
  return {
      z, z / H, h, h / (H / static_cast<int>(p.Hk)), i0, min(kRows, static_cast<int>(p.Lq) - i0)};
}

// X, c and the ranges. Ends with a barrier.
template <int kRows>
__device__ float2 short_queries(const ShortCall& s, const ShortAt& at, const ShortRows<kRows>& to,
                                ShortRanges<kRows>& ranges) {
  const AttentionProblem& p = s.p;
  const int D = static_cast<int>(p.D), width = s.lanes_width;
  __shared__ Extent of_warps[kShortWarps];
  Extent extent{0.0f, 0.0f};
  for (int t = threadIdx.x * 4; t < kRows * width; t += kShortThreads * 4) {
    const int i = t / width, a = t % width;
    float4 x{};
    if (i < at.rows && a < s.width) {
      const float4 q =
          __ldg(reinterpret_cast<const float4*>(row_of(p.q, at.b, at.h, at.i0 + i) + a));
      extent = both(extent, {fmaxf(fmaxf(q.x, q.y), fmaxf(q.z, q.w)),
                             fminf(fminf(q.x, q.y), fminf(q.z, q.w))});
      x = {exp_twice_or_nan(q.x), exp_twice_or_nan(q.y), exp_twice_or_nan(q.z),
           exp_twice_or_nan(q.w)};
    }
    *reinterpret_cast<float4*>(to.x + t) = x;
  }
  if (threadIdx.x < kRows) {
    const int i = static_cast<int>(threadIdx.x);
    ranges.rows[i] = i < at.rows ? range_of(p, at.b, at.h, at.i0 + i) : Range{0, 0};
  }
  extent = {warp_max(extent.most), -warp_max(-extent.least)};
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = extent;
  const WeightSums u = weight_sums(p);  // has a barrier
  if (threadIdx.x == 0) {
    for (const Extent& x : of_warps) extent = both(extent, x);
    ranges.queries = extent;
    ranges.far = u.far;
    ranges.all = {static_cast<int>(p.Lk), 0};
    for (const Range& r : ranges.rows) {
      if (r.begin < r.end) {
        ranges.all = {min(ranges.all.begin, r.begin), max(ranges.all.end, r.end)};
      }
    }
  }
  for (int a = threadIdx.x; a < width; a += kShortThreads) {
    const float c = a < D ? constant_of(p, a, u.most) : kPadding;
    float top = 0.0f;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      float& x = to.x[i * width + a];
      x = a < D ? at_most(at_least(x * c, -3e38f), 3e38f) : 0.0f;
      top = fmaxf(top, fabsf(x));
    }
    to.constant[a] = c;
    to.limit[a] = limit_of(top);
  }
  __syncthreads();
  return line_of(u, width - D);
}

// acc[i·4 + key] = Σ 1/x over this lane's features, of keys j0 … j0 + 4.
template <int kRows>
__device__ __forceinline__ void short_sums(const ShortCall& s, const ShortAt& at,
                                           const ShortRows<kRows>& in, int j0, int lane,
                                           float (&acc)[kRows * kShortKeys]) {
  const AttentionProblem& p = s.p;
  const float* const keys = row_of(p.k, at.b, at.hk, 0);
  int from[kShortKeys];
  float4 next[kShortKeys];
  const auto load = [&](int row, int a) {
    return a < s.width ? __ldg(reinterpret_cast<const float4*>(keys + row + a)) : float4{};
  };
#pragma unroll
  for (int n = 0; n < kShortKeys; ++n) {
    from[n] = min(j0 + n, static_cast<int>(p.Lk) - 1) * static_cast<int>(p.k.r);
    next[n] = load(from[n], lane * 4);
  }
#pragma unroll
  for (int t = 0; t < kRows * kShortKeys; ++t) acc[t] = 0.0f;
#pragma unroll 1
  for (int a = lane * 4; a < s.lanes_width; a += 4 * kWarp) {
    float4 y[kShortKeys], most{-infinity(), -infinity(), -infinity(), -infinity()};
#pragma unroll
    for (int n = 0; n < kShortKeys; ++n) {
      const float4 k = next[n];
      most = {fmaxf(most.x, k.x), fmaxf(most.y, k.y), fmaxf(most.z, k.z), fmaxf(most.w, k.w)};
      y[n] = {exp_twice_or_nan(k.x), exp_twice_or_nan(k.y), exp_twice_or_nan(k.z),
              exp_twice_or_nan(k.w)};
      next[n] = load(from[n], a + 4 * kWarp);
    }
    const float4 c = *reinterpret_cast<const float4*>(in.constant + a);
    const float4 limit = *reinterpret_cast<const float4*>(in.limit + a);
    const bool narrow =
        most.x < limit.x && most.y < limit.y && most.z < limit.z && most.w < limit.w;
    const auto add = [&](auto pairs) {
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const float4 x = *reinterpret_cast<const float4*>(in.x + i * s.lanes_width + a);
#pragma unroll
        for (int n = 0; n < kShortKeys; ++n) {
          const float x0 = fmaf(x.x, y[n].x, c.x), x1 = fmaf(x.y, y[n].y, c.y);
          const float x2 = fmaf(x.z, y[n].z, c.z), x3 = fmaf(x.w, y[n].w, c.w);
          float& sum = acc[i * kShortKeys + n];
          if constexpr (decltype(pairs)::value) {
            sum = fmaf(x0 + x1, reciprocal(x0 * x1), sum);
            sum = fmaf(x2 + x3, reciprocal(x2 * x3), sum);
          } else {
            sum += reciprocal(x0) + reciprocal(x1);
            sum += reciprocal(x2) + reciprocal(x3);
          }
        }
      }
    };
    if (__all_sync(kAll, narrow)) {
      add(std::true_type());
    } else {
      add(std::false_type());
    }
  }
}

// Whether one of keys j0 … j0 + 4 is far from one of the block's rows.
template <int kRows>
__device__ __forceinline__ bool short_apart(const ShortCall& s, const ShortAt& at,
                                            const ShortRanges<kRows>& ranges, int j0) {
  Extent keys{0.0f, 0.0f};
  for (int n = 0; n < kShortKeys; ++n) {
    const float* const k = row_of(s.p.k, at.b, at.hk, min(j0 + n, static_cast<int>(s.p.Lk) - 1));
    for (int a = threadIdx.x % kWarp; a < s.width; a += kWarp) keys = both(keys, {k[a], k[a]});
  }
  keys = {warp_max(keys.most), -warp_max(-keys.least)};
  return far_apart(ranges.queries, keys, ranges.far);
}

// Scores of those keys from q + k, masked, into in.e; by a warp.
template <int kRows>
__device__ __forceinline__ void short_scores_apart(const ShortCall& s, const ShortAt& at,
                                                   const ShortRows<kRows>& in,
                                                   const ShortRanges<kRows>& ranges, int j0) {
  const AttentionProblem& p = s.p;
  const int lane = threadIdx.x % kWarp;
  const float scale = p.scale / p.temperature;
  for (int t = 0; t < kRows * kShortKeys; ++t) {
    const int i = t / kShortKeys, j = j0 + t % kShortKeys;
    const float* const q = row_of(p.q, at.b, at.h, at.i0 + min(i, at.rows - 1));
    const float* const k = row_of(p.k, at.b, at.hk, min(j, static_cast<int>(p.Lk) - 1));
    float sum = 0.0f;
    for (int a = lane; a < p.D; a += kWarp) {
      sum = fmaf(p.u[a] * scale, fmaf(-2.0f, fraction(q[a] + k[a]), 1.0f), sum);
    }
    sum = warp_sum(sum);
    const RowAt row{at.b, at.h, at.i0 + i, ranges.rows[i]};
    if (lane == 0) in.e[i * s.padded_keys + j] = masked(p, row, j, sum);
  }
}

// Of all keys those that are far, again: each warp its own.
template <int kRows>
__device__ __noinline__ void short_scores_of_far(const ShortCall& s, const ShortAt& at,
                                                 const ShortRows<kRows>& in,
                                                 const ShortRanges<kRows>& ranges) {
  __syncwarp();
  const int first = threadIdx.x / kWarp * kShortKeys, Lk = static_cast<int>(s.p.Lk);
  for (int j0 = first; j0 < Lk; j0 += kShortWarps * kShortKeys) {
    const bool seen = j0 < ranges.all.end && j0 + kShortKeys > ranges.all.begin;
    if (seen && short_apart<kRows>(s, at, ranges, j0)) {
      short_scores_apart<kRows>(s, at, in, ranges, j0);
    }
  }
}

// All scores of the block's rows, masked, into in.e.
template <int kRows>
__device__ void short_scores(const ShortCall& s, const ShortAt& at, const ShortRows<kRows>& in,
                             const ShortRanges<kRows>& ranges, float2 line) {
  using Sums = WarpSums<kRows * kShortKeys>;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, Lk = static_cast<int>(s.p.Lk);
  for (int j0 = warp * kShortKeys; j0 < Lk; j0 += kShortWarps * kShortKeys) {
    if (j0 >= ranges.all.end || j0 + kShortKeys <= ranges.all.begin) {
      for (int t = lane; t < kRows * kShortKeys; t += kWarp) {
        in.e[t / kShortKeys * s.padded_keys + j0 + t % kShortKeys] = -infinity();
      }
      continue;
    }
    float acc[kRows * kShortKeys];
    short_sums<kRows>(s, at, in, j0, lane, acc);
    Sums::run(acc, lane);
#pragma unroll
    for (int t = 0; t < Sums::kKept; ++t) {
      const int id = Sums::index(t, lane);
      if (id < 0) continue;
      const int i = id / kShortKeys, j = j0 + id % kShortKeys;
      const RowAt row{at.b, at.h, at.i0 + i, ranges.rows[i]};
      in.e[i * s.padded_keys + j] = masked(s.p, row, j, fmaf(acc[t], line.y, line.x));
    }
  }
  if (ranges.some_far()) short_scores_of_far<kRows>(s, at, in, ranges);
}

// Softmax of row i of the block, by a warp.
template <int kRows>
__device__ __forceinline__ Sum short_softmax(const ShortCall& s, const ShortRows<kRows>& in, int i,
                                             int h, int lane) {
  const float* const e = in.e + i * s.padded_keys;
  float most = -infinity(), sum = 0.0f;
  for (int j = lane; j < s.p.Lk; j += kWarp) most = fmaxf(most, e[j]);
  most = warp_max(most);
  const float base = most == -infinity() ? 0.0f : most;
  for (int j = lane; j < s.p.Lk; j += kWarp) sum += exp2_of(e[j] - base);
  return merged(sink_of(s.p, h), {most, warp_sum(sum)});
}

}  // namespace fovea::cuda
