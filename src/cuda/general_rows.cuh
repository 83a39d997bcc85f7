// A row of scores becomes weights, and the gradients of weights those of scores, whatever the
// weighting: `Row` is one of weigh_*.cuh. A team has a row; its scores lie in memory, in units of
// 1. The rules are those of the CPU's rows-inl.h and backward-rows-inl.h. Bound by memory: a row is
// read two to four times, a sparse one as often as Newton's method steps.
#pragma once

#include "cuda/chunks.cuh"
#include "cuda/weigh_softmax.cuh"

namespace fovea::cuda {

// Where a team's row lies.
struct TeamRow {
  int head, i;  // of the chunk
  RowAt at;
  int hk;
  size_t row;     // of [B,H,Lq]
  size_t scores;  // of c.e
  size_t keys;    // the first of its head's, of [B,Hk,Lk]
  bool there;
  __device__ TeamRow(const AttentionProblem& p, const Chunk& c, int r)
      : there(r < c.heads * c.rows) {
    const int t = there ? r : 0, H = static_cast<int>(p.H), Hk = static_cast<int>(p.Hk);
    head = t / c.rows, i = t % c.rows;
    const int z = c.z + head;
    at = {z / H, z % H, c.row + i, {}};
    hk = at.h / (H / Hk);
    row = static_cast<size_t>(z) * p.Lq + at.i;
    scores = c.at(head, i);
    keys = (static_cast<size_t>(at.b) * Hk + hk) * p.Lk;
  }
};

// What multiplies a weight after the weighting: a predicted window's bell, and dropout.
struct RowFactor {
  bool bell;
  float center, scale;
  Dropout dropout;
  RandomKey noise;
  int64_t first;
  __device__ RowFactor(const AttentionProblem& p, const Dropout& d, const RowAt& at)
      : bell(p.center.data && !p.renormalise),
        center(0.0f),
        scale(0.0f),
        dropout(d),
        noise{},
        first(p.first.j) {
    if (p.center.data) center = *row_of(p.center, at.b, at.h, at.i);
    if (bell) scale = -0.5f / (p.sigma * p.sigma);
    if (d.below != 0) noise = noise_of(p, at.b, at.h, at.i);
  }
  // x times the factor; 0 where it is dropped, whatever x is.
  __device__ float times(float x, int j) const {
    if (bell) {
      const float away = static_cast<float>(j) - center;
      x *= expf(away * away * scale);
    }
    if (dropout.below == 0) return x;
    const bool kept = bits32(noise, static_cast<uint64_t>(first + j)) >= dropout.below;
    return kept ? x * dropout.kept : 0.0f;
  }
};

__device__ __forceinline__ float sink_score(const AttentionProblem& p, int h) {
  return p.sink ? p.sink[h] / p.temperature : -infinity();
}

struct RowCall {
  Chunk c;
  Dropout dropout;
  float* stat = nullptr;
  View<float> weights;       // by (b, h, i) of the problem
  bool keep = false;         // weights take the place of scores
  uint8_t* w_bad = nullptr;  // [heads][padded], with `keep`
};

template <class Row, int kThreads>
__global__ __launch_bounds__(kTeamBlock) void weigh_rows(const __grid_constant__ AttentionProblem p,
                                                         const __grid_constant__ RowCall x) {
  const Team<kThreads> team;
  const TeamRow at(p, x.c, team.row());
  if (!at.there) return;
  float* const s = x.c.e + at.scores;
  const int n = x.c.padded_keys, Lk = static_cast<int>(p.Lk);
  const RowScores scores = scores_of(p, s, at.at, false);
  const Row row(team, scores, n, sink_score(p, at.at.h));
  if (x.stat && team.rank == 0) x.stat[at.row] = row.stat();
  if (!x.keep && !x.weights.data) return;
  const RowFactor factor(p, x.dropout, at.at);
  float* const to = x.weights.data ? row_of(x.weights, at.at.b, at.at.h, at.at.i) : nullptr;
  bool bad = false;
  for (int j = team.rank; j < n; j += kThreads) {
    const float score = s[j];
    float w = 0.0f;
    if (score != -infinity()) {
      w = row.undefined() ? not_a_number() : factor.times(row.weight(score), j);
    }
    bad = bad || !has_halves(w);
    if (x.keep) s[j] = w;
    if (to && j < Lk) to[j * x.weights.c] = w;
  }
  if (!x.keep) return;
  bad = team.any(bad);
  if (team.rank == 0) x.w_bad[static_cast<size_t>(at.head) * x.c.padded + at.i] = bad;
}

// The gradient of a weight before its factor: do·v of (i, j) in full.
__device__ __noinline__ inline float pair_product(const AttentionProblem& p,
                                                  const AttentionGradients& g, const RowAt& at,
                                                  int hk, int j) {
  const float* const d_out = row_of(g.d_context, at.b, at.h, at.i);
  const float* const value = row_of(p.v, at.b, hk, j);
  float sum = 0.0f;
  for (int d = 0; d < p.Dv; ++d) sum += d_out[d * g.d_context.c] * value[d * p.v.c];
  return sum;
}

// 1 − tanh² of a capped score s, T and bias taken out again.
__device__ __forceinline__ float slope_of(const AttentionProblem& p, const RowAt& at, int j,
                                          float s) {
  if (p.bias.data) s -= row_of(p.bias, at.b, at.h, at.i)[j * p.bias.c] * (1.0f / p.temperature);
  if (p.center.data && p.renormalise) s -= window_exponent(p, at, j);
  const float t = s * (p.temperature / p.softcap);
  return 1.0f - t * t;
}

struct GradientRowCall {
  RowCall rows;
  float* dw = nullptr;      // as c.e: d_context·vᵀ, and afterwards ds
  bool of_context = false;  // whether it is there
  float* ds = nullptr;      // as c.e, optional: ds before the cap's slope
  float* totals = nullptr;  // [heads·rows]: Σ ds
  bool noisy = false;       // the scores are those with noise
  bool centers = false;     // dcenter is this kernel's
};

// What the gradients of other functions of the probabilities add.
struct Picked {
  int key = -1;
  float d = 0.0f;
};
__device__ __forceinline__ Picked take_terms(const AttentionGradients& g, size_t at,
                                             SoftmaxRow& row) {
  Picked pick;
  if (g.d_stat) row.beta += g.d_stat[at];
  if (g.d_log_prob && g.chosen[at] >= 0) {
    pick = {g.chosen[at], g.d_log_prob[at]};
    row.beta -= pick.d;
  }
  if (g.d_entropy) {
    row.beta -= g.d_entropy[at] * g.entropy[at];
    row.gamma = -g.d_entropy[at];
  }
  return pick;
}
template <class Row>
__device__ __forceinline__ Picked take_terms(const AttentionGradients&, size_t, Row&) {
  return {};
}

template <class Row>
__device__ __forceinline__ float sink_gradient(const Row&, float) {
  return 0.0f;
}
__device__ __forceinline__ float sink_gradient(const SoftmaxRow& row, float sink) {
  if (row.undefined()) return not_a_number();
  const float w = row.weight(sink);
  return w == 0.0f ? 0.0f : row.gradient(sink, w, 0.0f);
}

// c.e: scores → weights as they multiply the values; dw → ds.
template <class Row, int kThreads>
__global__ __launch_bounds__(kTeamBlock) void gradient_rows(
    const __grid_constant__ AttentionProblem p, const __grid_constant__ AttentionGradients g,
    const __grid_constant__ Prepared in, const __grid_constant__ GradientRowCall x) {
  const Team<kThreads> team;
  const Chunk& c = x.rows.c;
  const TeamRow at(p, c, team.row());
  if (!at.there) return;
  float* const s = c.e + at.scores;
  float* const dw = x.dw + at.scores;
  const int n = c.padded_keys, Lk = static_cast<int>(p.Lk);
  const RowScores scores = scores_of(p, s, at.at, x.noisy);
  const float sink = sink_score(p, at.at.h);
  Row row(team, scores, n, sink);
  const bool undefined = row.undefined();
  const RowFactor factor(p, x.rows.dropout, at.at);
  const bool d_bad = x.of_context && in.d_bad[at.row];
  const float* const d_weights =
      g.d_weights.data ? row_of(g.d_weights, at.at.b, at.at.h, at.at.i) : nullptr;
  for (int j = team.rank; j < n; j += kThreads) {
    float up = 0.0f;
    if (s[j] != -infinity()) {
      if (x.of_context) {
        up = d_bad || in.v_bad[at.keys + j] ? pair_product(p, g, at.at, at.hk, j) : dw[j];
      }
      if (d_weights) up += d_weights[j * g.d_weights.c];
      up = factor.times(up, j);
    }
    dw[j] = up;
  }
  row.prepare_gradient(team, scores, dw, n);
  const Picked pick = take_terms(g, at.row, row);
  float moment = 0.0f, total = 0.0f;
  bool bad = false;
  for (int j = team.rank; j < n; j += kThreads) {
    const bool seen = s[j] != -infinity();
    const float score = scores(j), up = dw[j];
    float w = 0.0f, ds = 0.0f;
    if (seen && undefined) w = ds = not_a_number();
    if (seen && !undefined) {
      w = row.weight(score);
      ds = row.gradient(score, w, up);
      if (j == pick.key) ds += pick.d;
      const float away = static_cast<float>(j) - factor.center;
      if (factor.bell && w != 0.0f) moment += up * w * away;
      if (!factor.bell && ds != 0.0f) moment += ds * away;
      w = factor.times(w, j);
    }
    if (x.ds) x.ds[at.scores + j] = ds;
    if (p.softcap > 0.0f && ds != 0.0f) ds *= slope_of(p, at.at, j, s[j]);
    total += ds;
    bad = bad || !has_halves(w);
    if (g.dgiven.data && j < Lk) {
      row_of(g.dgiven, at.at.b, at.at.h, at.at.i)[j * g.dgiven.c] = ds * (p.scale / p.temperature);
    }
    dw[j] = ds;
    s[j] = w;
  }
  total = team.sum(total), moment = team.sum(moment), bad = team.any(bad);
  if (team.rank != 0) return;
  x.totals[static_cast<size_t>(at.head) * c.rows + at.i] = total;
  x.rows.w_bad[static_cast<size_t>(at.head) * c.padded + at.i] = bad;
  if (g.dcenter && x.centers) {
    g.dcenter[at.row] = undefined ? not_a_number() : moment / (p.sigma * p.sigma);
  }
  if (g.dsink) g.dsink[at.row] = sink_gradient(row, sink);
}

}  // namespace fovea::cuda
