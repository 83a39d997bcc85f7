// The short path forward, one kernel: scores, softmax, sum over values in float32. Rows of v are on
// their way four ahead while others are used (67 → 53 µs against plain loads on an H200, B 128 Lq
// 10 Lk 128 A 1024; v staged in shared memory was no faster). There it takes 64 µs; bytes
// alone would take 33, and half of the issue slots are busy.
#pragma once

#include "cuda/short_scores.cuh"

namespace fovea::cuda {

// How threads share the columns of v: four each, in groups that take every n-th key.
struct ValueGroups {
  int columns, groups;  // threads of a group; groups
  __host__ __device__ explicit ValueGroups(const ShortCall& s)
      : columns(s.value_width / 4), groups(kShortThreads / (s.value_width / 4)) {}
};

template <int kRows>
__host__ __device__ inline int forward_x_floats(const ShortCall& s) {
  const int sums = (ValueGroups(s).groups - 1) * kRows * s.value_width, x = kRows * s.lanes_width;
  return sums > x ? sums : x;
}
template <int kRows>
inline size_t short_forward_shared(const ShortCall& s) {
  const size_t floats = ShortRows<kRows>::floats(s, forward_x_floats<kRows>(s)) +
                        static_cast<size_t>(s.padded_keys) * round_up(kRows, 4);
  return floats * sizeof(float);
}

// out[i] += w[j][i]·v[j] of this thread's columns and keys: every groups-th from `first` on, before
// `last`. Four rows are on their way while four others are used; the first four are given.
constexpr int kAhead = 4;
struct ValueRows {
  const float* v;
  int64_t step;
  int first, last, groups;
  __device__ __forceinline__ float4 load(int j) const {
    return __ldg(reinterpret_cast<const float4*>(v + min(j, last - 1) * step));
  }
};
template <int kRows>
__device__ __forceinline__ void sum_values(const ValueRows& rows, const float* weights,
                                           float4 (&now)[kAhead], float4 (&out)[kRows]) {
  constexpr int kPadded = round_up(kRows, 4);
  const auto add = [&](int j, float4 x) {
    float w[kPadded];
#pragma unroll
    for (int t = 0; t < kPadded / 4; ++t) {
      const float4 four = *reinterpret_cast<const float4*>(weights + j * kPadded + t * 4);
      w[t * 4] = four.x, w[t * 4 + 1] = four.y, w[t * 4 + 2] = four.z, w[t * 4 + 3] = four.w;
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      out[i] = {fmaf(w[i], x.x, out[i].x), fmaf(w[i], x.y, out[i].y), fmaf(w[i], x.z, out[i].z),
                fmaf(w[i], x.w, out[i].w)};
    }
  };
  float4 next[kAhead];
  const int stride = kAhead * rows.groups;
  const auto batch = [&](int j0, float4(&use)[kAhead], float4(&fetch)[kAhead]) {
#pragma unroll
    for (int t = 0; t < kAhead; ++t) fetch[t] = rows.load(j0 + stride + t * rows.groups);
#pragma unroll
    for (int t = 0; t < kAhead; ++t) {
      if (j0 + t * rows.groups < rows.last) add(j0 + t * rows.groups, use[t]);
    }
  };
#pragma unroll 1
  for (int j = rows.first; j < rows.last; j += 2 * stride) {
    batch(j, now, next);
    if (j + stride < rows.last) batch(j + stride, next, now);
  }
}

// The same where something in v is not finite: what has no weight is not looked at.
template <int kRows>
__device__ __noinline__ float4 careful_sum(const ValueRows& rows, const float* weights) {
  constexpr int kPadded = round_up(kRows, 4);
  float4 sum{};
  for (int j = rows.first; j < rows.last; j += rows.groups) {
    const float w = weights[j * kPadded];
    if (w == 0.0f) continue;
    const float4 x = rows.load(j);
    sum = {fmaf(w, x.x, sum.x), fmaf(w, x.y, sum.y), fmaf(w, x.z, sum.z), fmaf(w, x.w, sum.w)};
  }
  return sum;
}

// Scores of the block's rows become weights [key][row].
template <int kRows>
__device__ __forceinline__ void weigh_rows(const ShortCall& s, const ShortAt& at,
                                           const ShortRows<kRows>& rows, const Dropout& dropout,
                                           float* stat, float* weights) {
  constexpr int kPadded = round_up(kRows, 4);
  const AttentionProblem& p = s.p;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, Lk = static_cast<int>(p.Lk);
  for (int i = warp; i < kPadded; i += kShortWarps) {
    if (i >= at.rows) {
      for (int j = lane; j < Lk; j += kWarp) weights[j * kPadded + i] = 0.0f;
      continue;
    }
    const Sum sum = short_softmax<kRows>(s, rows, i, at.h, lane);
    const RowState state{sum.m, log_sum_of(sum),
                         dropout.below ? noise_of(p, at.b, at.h, at.i0 + i) : RandomKey{}};
    for (int j = lane; j < Lk; j += kWarp) {
      weights[j * kPadded + i] =
          weight_of(rows.e[i * s.padded_keys + j], state) * factor_of(dropout, state.noise, j);
    }
    if (lane == 0 && stat) stat[static_cast<size_t>(at.z) * p.Lq + at.i0 + i] = stat_of(sum);
  }
}

// The sums of all groups, by the first of them, into memory; `others` is [group − 1][row][width].
template <int kRows>
__device__ __forceinline__ void write_context(const ShortCall& s, const ShortAt& at,
                                              const View<float>& context, float* others,
                                              float4 (&sum)[kRows]) {
  const ValueGroups by(s);
  const int d = threadIdx.x % by.columns * 4, group = threadIdx.x / by.columns;
  if (group > 0 && group < by.groups) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      *reinterpret_cast<float4*>(others + ((group - 1) * kRows + i) * s.value_width + d) = sum[i];
    }
  }
  __syncthreads();
  if (group > 0) return;
  for (int t = 0; t < by.groups - 1; ++t) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const float4 x =
          *reinterpret_cast<const float4*>(others + (t * kRows + i) * s.value_width + d);
      sum[i] = {sum[i].x + x.x, sum[i].y + x.y, sum[i].z + x.z, sum[i].w + x.w};
    }
  }
  const bool whole = whole_rows(context) && s.p.Dv % 4 == 0;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    if (i >= at.rows) continue;
    float* const to = row_of(context, at.b, at.h, at.i0 + i);
    if (whole) {
      *reinterpret_cast<float4*>(to + d) = sum[i];
    } else {
      const float x[4] = {sum[i].x, sum[i].y, sum[i].z, sum[i].w};
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (d + e < s.p.Dv) to[(d + e) * context.c] = x[e];
      }
    }
  }
}

template <int kRows>
__global__ __launch_bounds__(kShortThreads,
                             1) void attend_short(const __grid_constant__ ShortCall s,
                                                  const __grid_constant__ AttentionResult out,
                                                  const __grid_constant__ Dropout dropout) {
  extern __shared__ float4 shared[];
  __shared__ ShortRanges<kRows> ranges;
  const AttentionProblem& p = s.p;
  const int tid = threadIdx.x, Lk = static_cast<int>(p.Lk);
  const ShortAt at = short_at<kRows>(p, blockIdx.y, blockIdx.x * kRows);
  ShortRows<kRows> rows;
  float* const weights =  // [key][row]
      rows.lay(s, reinterpret_cast<float*>(shared), forward_x_floats<kRows>(s));
  const float2 line = short_queries<kRows>(s, at, rows, ranges);
  short_scores<kRows>(s, at, rows, ranges, line);
  const ValueGroups by(s);
  const int d = tid % by.columns * 4, group = tid / by.columns;
  const ValueRows values{row_of(p.v, at.b, at.hk, 0) + d, p.v.r,
                         min(ranges.all.begin, Lk - 1) + group, ranges.all.end, by.groups};
  const bool working = group < by.groups && values.first < values.last && out.context.data;
  float4 now[kAhead];
#pragma unroll
  for (int t = 0; t < kAhead; ++t) {
    if (working) now[t] = values.load(values.first + t * by.groups);
  }
  __syncthreads();
  weigh_rows<kRows>(s, at, rows, dropout, out.stat, weights);
  __syncthreads();
  if (!out.context.data) return;
  float4 sum[kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i) sum[i] = {};
  if (working) {
    sum_values<kRows>(values, weights, now, sum);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      if (!finite(sum[i].x) || !finite(sum[i].y) || !finite(sum[i].z) || !finite(sum[i].w)) {
        sum[i] = careful_sum<kRows>(values, weights + i);
      }
    }
  }
  write_context<kRows>(s, at, out.context, rows.x, sum);
}

}  // namespace fovea::cuda
