// What happens to a row of scores on the device: masks, biases and the cap, softmax, dropout, and
// the gradient of all that. The rules are those of the CPU's rows-inl.h. Scores are in units of
// log 2, so that a weight is one ex2: w = 2^(e − m − log2 Σ 2^(e−m)).
#pragma once

#include <cfloat>

#include "core/random.h"
#include "cuda/device.cuh"
#include "kernels/attention/problem.h"

namespace fovea::cuda {

using kernels::AttentionGradients;
using kernels::AttentionProblem;
using kernels::AttentionResult;
using kernels::Family;
using kernels::View;

template <class T>
__device__ __forceinline__ T* row_of(const View<T>& v, int b, int h, int i) {
  return v.data + b * v.b + h * v.h + i * v.r;
}

// Keys begin ≤ j < end of a row.
struct Range {
  int begin, end;
};
__device__ __forceinline__ Range range_of(const AttentionProblem& p, int b, int h, int i) {
  const int all = static_cast<int>(p.Lk);
  if (!p.begin.data) return {0, all};
  const int begin = max(*row_of(p.begin, b, h, i), 0), end = min(*row_of(p.end, b, h, i), all);
  return begin < end ? Range{begin, end} : Range{0, 0};
}

// A row of scores and where it lies.
struct RowAt {
  int b, h, i;
  Range keys;
};

// s = cap(raw) + bias/T of key j in units of log 2 or of 1, −inf where it is forbidden. T and the
// scale are in `raw`. A finite bias forbids nothing, however low.
__device__ __forceinline__ float masked(const AttentionProblem& p, const RowAt& row, int j,
                                        float raw, float unit = kLog2e) {
  if (j < row.keys.begin || j >= row.keys.end) return -infinity();
  if (p.allowed.data && !row_of(p.allowed, row.b, row.h, row.i)[j * p.allowed.c]) {
    return -infinity();
  }
  if (p.softcap > 0.0f) {
    const float cap = p.softcap / p.temperature;
    raw = cap * tanhf(raw / cap);
  }
  if (p.bias.data) {
    const float add = row_of(p.bias, row.b, row.h, row.i)[j * p.bias.c];
    if (add == -infinity()) return -infinity();
    raw += at_least(add * (1.0f / p.temperature), -FLT_MAX);
  }
  return unit == 1.0f ? raw : at_least(raw * unit, -FLT_MAX);  // −FLT_MAX·log2 e is no number
}

// The exponent of a predicted window: −(j − p)²/(2σ²).
__device__ __forceinline__ float window_exponent(const AttentionProblem& p, const RowAt& row,
                                                 int j) {
  const float away = static_cast<float>(j) - *row_of(p.center, row.b, row.h, row.i);
  return -0.5f / (p.sigma * p.sigma) * away * away;
}

// Whether a call has conditions besides one matrix, or a window that is added to the scores.
__device__ __forceinline__ bool has_further(const AttentionProblem& p) {
  return p.n_conditions > 0 || (p.center.data && p.renormalise);
}
// What those make of a score that is there.
__device__ __noinline__ inline float masked_further(const AttentionProblem& p, const RowAt& row,
                                                    int j, float e, float unit) {
  if (e == -infinity()) return e;
  const int b = static_cast<int>(p.first.b) + row.b, h = static_cast<int>(p.first.h) + row.h;
  const int i = static_cast<int>(p.first.i) + row.i, key = static_cast<int>(p.first.j) + j;
  for (int t = 0; t < p.n_conditions; ++t) {
    const kernels::Condition& c = p.conditions[t];
    const bool seen = c.allowed.data ? row_of(c.allowed, b, h, i)[key * c.allowed.c] != 0
                                     : *row_of(c.of_query, b, h, i) == *row_of(c.of_key, b, h, key);
    if (!seen) return -infinity();
  }
  if (!p.center.data || !p.renormalise) return e;
  return at_least(e + window_exponent(p, row, j) * unit, -FLT_MAX);
}

// The slope at which a score was capped, 1 − tanh², from what `masked` gave.
__device__ __forceinline__ float cap_slope(const AttentionProblem& p, const RowAt& row, int j,
                                           float e) {
  float capped = e * kLn2;
  if (p.bias.data) {
    capped -= row_of(p.bias, row.b, row.h, row.i)[j * p.bias.c] * (1.0f / p.temperature);
  }
  const float t = capped * (p.temperature / p.softcap);
  return 1.0f - t * t;
}

// Of a row: the largest score, log2 Σ 2^(e−m) with the sink, and the key of its dropout.
struct __align__(16) RowState {
  float m, log_sum;
  RandomKey noise;
};

// A maximum and the sum relative to it, part by part. NaN and +inf make the sum NaN.
struct Sum {
  float m, l;
};
__device__ __forceinline__ Sum merged(Sum a, Sum b) {
  const float m = fmaxf(a.m, b.m), base = m == -infinity() ? 0.0f : m;
  return {m, a.l * exp2_of(a.m - base) + b.l * exp2_of(b.m - base)};
}
__device__ __forceinline__ Sum sink_of(const AttentionProblem& p, int h) {
  if (!p.sink) return {-infinity(), 0.0f};
  const float s = p.sink[h] / p.temperature;
  if (s == -infinity()) return {-infinity(), 0.0f};
  if (!(s < infinity())) return {0.0f, not_a_number()};
  return {at_least(s * kLog2e, -FLT_MAX), 1.0f};
}
__device__ __forceinline__ float log_sum_of(Sum s) { return s.l == 0.0f ? 0.0f : log2f(s.l); }
// log Σ e^s, as the CPU's kernels leave it.
__device__ __forceinline__ float stat_of(Sum s) {
  if (s.l == 0.0f) return -infinity();
  return s.l != s.l ? not_a_number() : (s.m + log2f(s.l)) * kLn2;
}

__device__ __forceinline__ RandomKey noise_of(const AttentionProblem& p, int b, int h, int i) {
  return random_key(p.seed, Purpose::weight_dropout, static_cast<uint64_t>(p.first.b + b),
                    static_cast<uint64_t>(p.first.h + h), static_cast<uint64_t>(p.first.i + i));
}

// What dropout makes of weights; by position, bit for bit the CPU's.
struct Dropout {
  uint32_t below;
  float kept;  // 1/(1 − rate); 1: none is dropped
};
inline Dropout dropout_of(const AttentionProblem& p) {
  return {static_cast<uint32_t>(static_cast<double>(p.dropout) * 4294967296.0),
          1.0f / (1.0f - p.dropout)};
}
__device__ __forceinline__ float factor_of(const Dropout& d, RandomKey noise, int j) {
  if (d.below == 0) return 1.0f;
  return bits32(noise, static_cast<uint32_t>(j)) >= d.below ? d.kept : 0.0f;
}

// A weight before dropout. What is forbidden stays 0 in a row of NaN.
__device__ __forceinline__ float weight_of(float e, const RowState& row) {
  return e == -infinity() ? 0.0f : exp2_of((e - row.m) - row.log_sum);
}

// Where dw is the gradient of the weight after dropout, and beta = d_stat − Σ w·dw:
// ds = p·(f·dw + beta). No weight, no gradient, whatever dw is.
__device__ __forceinline__ float score_gradient(float weight, float factor, float dw, float beta) {
  return weight == 0.0f ? 0.0f : weight * ((factor == 0.0f ? 0.0f : factor * dw) + beta);
}

// The sink's ds: its dw is 0.
__device__ __forceinline__ float sink_gradient(const AttentionProblem& p, int h,
                                               const RowState& row, float beta) {
  const Sum sink = sink_of(p, h);
  if (row.log_sum != row.log_sum) return not_a_number();
  if (sink.l == 0.0f) return 0.0f;
  const float weight = exp2_of((sink.m - row.m) - row.log_sum);
  return weight == 0.0f ? 0.0f : weight * beta;
}

}  // namespace fovea::cuda
