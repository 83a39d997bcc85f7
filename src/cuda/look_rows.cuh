// Looks inside a row: its entropy, the log-probability of a key, its largest weights.
#pragma once

#include <climits>

#include "cuda/general_rows.cuh"

namespace fovea::cuda {

// −Σ w log w, the sink among them.
static __global__ __launch_bounds__(kTeamBlock) void entropy_rows(
    const __grid_constant__ AttentionProblem p, const __grid_constant__ Chunk c, float* entropy) {
  const Team<kTeamBlock> team;
  const TeamRow at(p, c, team.row());
  const RowScores s = scores_of(p, c.e + at.scores, at.at, false);
  const float sink = sink_score(p, at.at.h);
  const SoftmaxRow row(team, s, c.padded_keys, sink);
  const auto term = [&](float score) {
    const float w = row.weight(score);
    return w == 0.0f ? 0.0f : w * row.log_weight(score);
  };
  float sum = team.rank == 0 ? term(sink) : 0.0f;
  for (int j = team.rank; j < c.padded_keys; j += kTeamBlock) sum += term(s(j));
  sum = team.sum(sum);
  if (team.rank == 0) entropy[at.row] = row.undefined() ? not_a_number() : -sum;
}

// log w of the chosen key; 0 where none is.
static __global__ __launch_bounds__(kTeamBlock) void log_prob_rows(
    const __grid_constant__ AttentionProblem p, const __grid_constant__ Chunk c, const float* stat,
    const int32_t* chosen, float* log_prob) {
  const Team<kTeamBlock> team;
  const TeamRow at(p, c, team.row());
  const RowScores s = scores_of(p, c.e + at.scores, at.at, false);
  const SoftmaxRow row(team, s, c.padded_keys, sink_score(p, at.at.h));
  if (team.rank != 0) return;
  const int j = chosen[at.row];
  const float none = stat[at.row] != stat[at.row] ? not_a_number() : 0.0f;
  log_prob[at.row] = j < 0 ? none : row.log_weight(s(j));
}

// The k largest one after another: each is the first of the largest of those that come after the
// last one, by size and then by key. A block has a row, and reads it k times.
static __global__ __launch_bounds__(kTeamBlock) void find_top(const kernels::TopRows x,
                                                              const float* weights, float* top,
                                                              int64_t* keys) {
  const Team<kTeamBlock> team;
  const float* const w = weights + static_cast<size_t>(blockIdx.x) * x.n;
  const int n = static_cast<int>(x.n), k = static_cast<int>(x.k);
  const auto size = [&](int j) { return w[j] != w[j] ? infinity() : w[j]; };  // NaN first
  float last = infinity();
  int last_key = -1;
  for (int t = 0; t < k; ++t) {
    float most = -infinity();
    int first = INT_MAX;
    for (int j = team.rank; j < n; j += kTeamBlock) {
      const float one = size(j);
      const bool after = one < last || (one == last && j > last_key);
      if (after && (one > most || first == INT_MAX)) most = one, first = j;
    }
    const float largest = team.max(first == INT_MAX ? -infinity() : most);
    const int key = team.min(first != INT_MAX && most == largest ? first : INT_MAX);
    last = largest, last_key = key;
    if (team.rank != 0) continue;
    top[static_cast<size_t>(blockIdx.x) * k + t] = w[key];
    keys[static_cast<size_t>(blockIdx.x) * k + t] = key;
  }
}

}  // namespace fovea::cuda
