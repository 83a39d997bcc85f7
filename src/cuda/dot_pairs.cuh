// Dot products on Hopper, pair by pair: for blocks that see a row without a finite norm, which
// halves cannot hold. A warp has a row; what is not seen is not read. Some thirty times as slow.
#pragma once

#include "cuda/dot_prepare.cuh"

namespace fovea::cuda {

// Whether a query has what is not finite: itself, its gradient or its statistic.
__device__ inline bool odd_query(const AttentionProblem& p, const DotPrepared& in, size_t row) {
  if (in.odd_rows[0][row]) return true;
  if (in.rows == nullptr) return false;
  const float4 held = in.rows[row / p.Lq * in.query_rows + row % p.Lq];
  return in.odd_rows[3][row] || held.x != held.x || !finite(held.y);
}
__device__ inline bool odd_keys(const AttentionProblem& p, const DotPrepared& in, int zk,
                                Range keys) {
  bool odd = false;
  for (int j = keys.begin; j < keys.end; ++j) {
    const size_t row = static_cast<size_t>(zk) * p.Lk + j;
    odd = odd || in.odd_rows[1][row] || in.odd_rows[2][row];
  }
  return odd;
}

// Whether some of a block's queries see what is odd, or are; and of its keys, who sees them.
__device__ __noinline__ bool queries_see_odd(const AttentionProblem& p, const DotPrepared& in,
                                             int first, int rows) {
  const int H = static_cast<int>(p.H), z = blockIdx.x, last = min(first + rows, int(p.Lq));
  bool odd = false;
  for (int i = first + threadIdx.x; i < last; i += blockDim.x) {
    const Range keys = range_of(p, z / H, z % H, i);
    if (keys.begin >= keys.end) continue;
    odd = odd || odd_query(p, in, static_cast<size_t>(z) * p.Lq + i) ||
          odd_keys(p, in, z / heads_sharing(p), keys);
  }
  return __syncthreads_or(odd);
}
__device__ __noinline__ bool keys_see_odd(const AttentionProblem& p, const DotPrepared& in,
                                          int first, int rows) {
  const int H = static_cast<int>(p.H), zk = blockIdx.x, group = heads_sharing(p);
  const int last = min(first + rows, int(p.Lk)), Lq = static_cast<int>(p.Lq);
  bool odd = false;
  for (int n = threadIdx.x; n < group * Lq; n += blockDim.x) {
    const int z = zk * group + n / Lq;
    const Range seen = range_of(p, z / H, z % H, n % Lq);
    const Range keys{max(seen.begin, first), min(seen.end, last)};
    if (keys.begin >= keys.end) continue;
    odd = odd || odd_query(p, in, static_cast<size_t>(zk) * group * Lq + n) ||
          odd_keys(p, in, zk, keys);
  }
  return __syncthreads_or(odd);
}

constexpr int kPairColumns = 128 / kWarp;  // of a lane

// Lanes go over columns.
template <class T>
struct PairRow {
  T* row;
  int64_t step;
  int n;
  __device__ PairRow(const View<T>& v, int b, int h, int i, int64_t columns)
      : row(row_of(v, b, h, i)), step(v.c), n(static_cast<int>(columns)) {}
  __device__ float at(int t) const {
    const int d = threadIdx.x % kWarp + t * kWarp;
    return d < n ? static_cast<float>(row[d * step]) : 0.0f;
  }
};
using PairSums = float[kPairColumns];

template <class T>
__device__ inline float pair_product(const PairRow<const T>& a, const PairRow<const T>& b) {
  float sum = 0.0f;
#pragma unroll
  for (int t = 0; t < kPairColumns; ++t) sum = fmaf(a.at(t), b.at(t), sum);
  return warp_sum(sum);
}
template <class T>
__device__ inline void pair_add(PairSums& sums, float factor, const PairRow<const T>& x) {
#pragma unroll
  for (int t = 0; t < kPairColumns; ++t) sums[t] = fmaf(factor, x.at(t), sums[t]);
}
template <class T>
__device__ inline void pair_write(const PairRow<T>& to, const PairSums& sums) {
#pragma unroll
  for (int t = 0; t < kPairColumns; ++t) {
    const int d = threadIdx.x % kWarp + t * kWarp;
    if (d < to.n) to.row[d * to.step] = static_cast<T>(sums[t]);
  }
}

// The score of a pair in units of log 2, −inf where it is forbidden.
template <class T>
__device__ inline float pair_score(const AttentionProblem& p, const DotViews<T>& io, const RowAt& q,
                                   int j) {
  const PairRow<const T> k(io.k, q.b, q.h / heads_sharing(p), j, p.D);
  const PairRow<const T> mine(io.q, q.b, q.h, q.i, p.D);
  const float raw = pair_product(mine, k) * (p.scale / p.temperature);
  return masked(p, q, j, raw);
}

// A row's context and statistic.
template <class T>
__device__ inline void pair_attend(const AttentionProblem& p, const DotViews<T>& io, const RowAt& q,
                                   float* stat) {
  Sum sum = sink_of(p, q.h);
  for (int j = q.keys.begin; j < q.keys.end; ++j) {
    const float e = pair_score(p, io, q, j);
    if (e != -infinity()) sum = merged(sum, {e, exp2_of(e - e)});
  }
  const size_t row = (static_cast<size_t>(q.b) * p.H + q.h) * p.Lq + q.i;
  if (threadIdx.x % kWarp == 0) stat[row] = stat_of(sum);
  if (!io.out.data) return;
  const RowState state{sum.m, log_sum_of(sum), {}};
  PairSums context{};
  for (int j = q.keys.begin; j < q.keys.end; ++j) {
    const float w = weight_of(pair_score(p, io, q, j), state);
    if (w == 0.0f) continue;
    pair_add(context, w, PairRow<const T>(io.v, q.b, q.h / heads_sharing(p), j, p.Dv));
  }
  pair_write(PairRow<T>(io.out, q.b, q.h, q.i, p.Dv), context);
}

template <class T>
__device__ __noinline__ void attend_pairs(const AttentionProblem& p, const DotViews<T>& io,
                                          float* stat, int first, int rows) {
  const int H = static_cast<int>(p.H), b = blockIdx.x / H, h = blockIdx.x % H;
  const int last = min(first + rows, static_cast<int>(p.Lq));
  for (int i = first + threadIdx.x / kWarp; i < last; i += blockDim.x / kWarp) {
    pair_attend(p, io, {b, h, i, range_of(p, b, h, i)}, stat);
  }
}

// The weight of a pair, and the gradient of its score.
struct PairGradient {
  float w, ds;
};
template <class T>
__device__ inline PairGradient pair_gradient(const AttentionProblem& p, const DotViews<T>& io,
                                             const DotPrepared& in, const RowAt& q, int j) {
  if (j < q.keys.begin || j >= q.keys.end) return {};
  const size_t z = static_cast<size_t>(q.b) * p.H + q.h;
  const float stat = in.stat[z * p.Lq + q.i];
  if (stat == -infinity()) return {};
  const float w = weight_of(pair_score(p, io, q, j), {stat * kLog2e, 0.0f * stat, {}});
  if (w == 0.0f) return {};
  const float dw = pair_product(PairRow<const T>(io.d_context, q.b, q.h, q.i, p.Dv),
                                PairRow<const T>(io.v, q.b, q.h / heads_sharing(p), j, p.Dv));
  return {w, score_gradient(w, 1.0f, dw, in.rows[z * in.query_rows + q.i].y)};
}

template <class T>
__device__ inline void pair_queries(const AttentionProblem& p, const DotViews<T>& io,
                                    const DotPrepared& in, const RowAt& q) {
  PairSums sums{};
  for (int j = q.keys.begin; j < q.keys.end; ++j) {
    const float ds = pair_gradient(p, io, in, q, j).ds * (p.scale / p.temperature);
    if (ds == 0.0f) continue;
    pair_add(sums, ds, PairRow<const T>(io.k, q.b, q.h / heads_sharing(p), j, p.D));
  }
  pair_write(PairRow<T>(io.dq, q.b, q.h, q.i, p.D), sums);
}

template <class T>
__device__ inline void pair_keys(const AttentionProblem& p, const DotViews<T>& io,
                                 const DotPrepared& in, int b, int hk, int j) {
  PairSums dk{}, dv{};
  const int group = heads_sharing(p);
  for (int h = hk * group; h < (hk + 1) * group; ++h) {
    for (int i = 0; i < p.Lq; ++i) {
      const PairGradient g = pair_gradient(p, io, in, {b, h, i, range_of(p, b, h, i)}, j);
      const float ds = g.ds * (p.scale / p.temperature);
      if (ds != 0.0f) pair_add(dk, ds, PairRow<const T>(io.q, b, h, i, p.D));
      if (g.w != 0.0f) pair_add(dv, g.w, PairRow<const T>(io.d_context, b, h, i, p.Dv));
    }
  }
  if (io.dk.data) pair_write(PairRow<T>(io.dk, b, hk, j, p.D), dk);
  if (io.dv.data) pair_write(PairRow<T>(io.dv, b, hk, j, p.Dv), dv);
}

template <class T>
__device__ __noinline__ void pair_gradients_of_queries(const AttentionProblem& p,
                                                       const DotViews<T>& io, const DotPrepared& in,
                                                       int first, int rows) {
  const int H = static_cast<int>(p.H), b = blockIdx.x / H, h = blockIdx.x % H;
  const int last = min(first + rows, static_cast<int>(p.Lq));
  for (int i = first + threadIdx.x / kWarp; i < last; i += blockDim.x / kWarp) {
    pair_queries(p, io, in, {b, h, i, range_of(p, b, h, i)});
  }
}

template <class T>
__device__ __noinline__ void pair_gradients_of_keys(const AttentionProblem& p,
                                                    const DotViews<T>& io, const DotPrepared& in,
                                                    int first, int rows) {
  const int Hk = static_cast<int>(p.Hk), b = blockIdx.x / Hk, hk = blockIdx.x % Hk;
  const int last = min(first + rows, static_cast<int>(p.Lk));
  for (int j = first + threadIdx.x / kWarp; j < last; j += blockDim.x / kWarp) {
    pair_keys(p, io, in, b, hk, j);
  }
}

}  // namespace fovea::cuda
