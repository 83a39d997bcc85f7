// One key a row: the first of the largest scores, s + g where it is drawn. Its weight is 1, times a
// predicted window's bell, times dropout.
#pragma once

#include <climits>

#include "cuda/general_rows.cuh"
#include "cuda/weigh_softmax.cuh"

namespace fovea::cuda {

struct ChooseCall {
  Chunk c;
  Dropout dropout;
  bool noisy = false;      // the largest of s + g
  bool sums = false;       // the statistic is a log-sum-exp:
  bool noisy_sum = false;  // of s + g
};

template <int kThreads>
__global__ __launch_bounds__(kTeamBlock) void choose_rows(
    const __grid_constant__ AttentionProblem p, const __grid_constant__ AttentionResult out,
    const __grid_constant__ ChooseCall x) {
  const Team<kThreads> team;
  const TeamRow at(p, x.c, team.row());
  if (!at.there) return;
  const float* const s = x.c.e + at.scores;
  const int n = x.c.padded_keys;
  const RowScores scores = scores_of(p, s, at.at, x.noisy);
  float most = -infinity();
  bool bad = false;
  for (int j = team.rank; j < n; j += kThreads) {
    const float score = scores(j);
    most = fmaxf(most, score);
    bad = bad || !(score < infinity());
  }
  most = team.max(most);
  bad = team.any(bad);
  int first = INT_MAX;
  for (int j = team.rank; j < n && most > -infinity(); j += kThreads) {
    if (scores(j) == most) first = min(first, j);
  }
  first = team.min(first);
  const int chosen = bad || first == INT_MAX ? -1 : first;
  float stat = -infinity();
  if (x.sums) {
    stat = SoftmaxRow(team, scores_of(p, s, at.at, x.noisy_sum), n, -infinity()).stat();
  }
  if (team.rank == 0) {
    if (out.chosen) out.chosen[at.row] = chosen;
    if (out.best) out.best[at.row] = bad ? not_a_number() : most;
    if (out.stat) out.stat[at.row] = bad ? not_a_number() : stat;
  }
  if (!out.context.data) return;
  const float none = bad ? not_a_number() : 0.0f;
  const float w = chosen < 0 ? none : RowFactor(p, x.dropout, at.at).times(1.0f, chosen);
  const float* const value = row_of(p.v, at.at.b, at.hk, max(chosen, 0));
  float* const to = row_of(out.context, at.at.b, at.at.h, at.at.i);
  for (int d = team.rank; d < p.Dv; d += kThreads) {
    to[d * out.context.c] = w == 0.0f ? 0.0f : w * value[d * p.v.c];
  }
}

// The weights of keys that were chosen before. Where none is, because a score is NaN or +inf, those
// that are seen are NaN.
struct ChosenCall {
  RowCall rows;
  View<const int32_t> chosen;  // by (b, h, i) of the problem
  View<const float> stat;
  bool scores = false;  // c.e holds scores; else weights of softmax, 0 where nothing is seen
  float* dcenter = nullptr;
};

template <int kThreads>
__global__ __launch_bounds__(kTeamBlock) void chosen_rows(
    const __grid_constant__ AttentionProblem p, const __grid_constant__ AttentionGradients g,
    const __grid_constant__ ChosenCall x) {
  const Team<kThreads> team;
  const Chunk& c = x.rows.c;
  const TeamRow at(p, c, team.row());
  if (!at.there) return;
  float* const s = c.e + at.scores;
  const int n = c.padded_keys, Lk = static_cast<int>(p.Lk);
  const int chosen = *row_of(x.chosen, at.at.b, at.at.h, at.at.i);
  const float stat = *row_of(x.stat, at.at.b, at.at.h, at.at.i);
  const RowFactor factor(p, x.rows.dropout, at.at);
  const float none = x.scores ? -infinity() : 0.0f;
  const float w = chosen < 0 ? 0.0f : factor.times(1.0f, chosen);
  const View<float>& weights = x.rows.weights;
  float* const to = weights.data ? row_of(weights, at.at.b, at.at.h, at.at.i) : nullptr;
  bool bad = false;
  for (int j = team.rank; j < n; j += kThreads) {
    float weight = j == chosen ? w : 0.0f;
    if (stat != stat && s[j] != none) weight = not_a_number();
    bad = bad || !has_halves(weight);
    if (x.rows.keep) s[j] = weight;
    if (to && j < Lk) to[j * weights.c] = weight;
  }
  bad = team.any(bad);
  if (team.rank == 0 && x.rows.keep) {
    x.rows.w_bad[static_cast<size_t>(at.head) * c.padded + at.i] = bad;
  }
  if (!x.dcenter) return;
  float dw = 0.0f;
  if (chosen >= 0 && g.d_context.data) {
    const float* const d_out = row_of(g.d_context, at.at.b, at.at.h, at.at.i);
    const float* const value = row_of(p.v, at.at.b, at.hk, chosen);
    for (int d = team.rank; d < p.Dv; d += kThreads) {
      dw += d_out[d * g.d_context.c] * value[d * p.v.c];
    }
  }
  dw = team.sum(dw);
  if (team.rank != 0) return;
  if (chosen < 0) {
    x.dcenter[at.row] = stat != stat ? not_a_number() : 0.0f;
    return;
  }
  if (g.d_weights.data) {
    dw += row_of(g.d_weights, at.at.b, at.at.h, at.at.i)[chosen * g.d_weights.c];
  }
  const float away = static_cast<float>(chosen) - factor.center;
  x.dcenter[at.row] = dw * w * away / (p.sigma * p.sigma);
}

}  // namespace fovea::cuda
