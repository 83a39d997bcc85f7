// w = e^{s−m}/Σ e^{s−m}, a sink among the sum. With what else is a function of the probabilities,
//   ds = w·(dw + beta + gamma·log w), beta = −Σ w·dw + d log-sum-exp − …
#pragma once

#include "cuda/noise.cuh"
#include "cuda/team.cuh"

namespace fovea::cuda {

struct SoftmaxRow {
  float m = -infinity(), log_sum = 0.0f;  // NaN where a score is NaN or +inf
  float inverse = 0.0f;                   // of the sum
  float beta = 0.0f, gamma = 0.0f;

  template <class Team>
  __device__ SoftmaxRow(const Team& team, const RowScores& s, int n, float sink) {
    float most = sink;
    bool bad = !(sink < infinity());
    for (int j = team.rank; j < n; j += Team::kSize) {
      const float x = s(j);
      most = fmaxf(most, x);
      bad = bad || !(x < infinity());
    }
    m = team.max(most);
    if (team.any(bad)) {
      log_sum = not_a_number();
      return;
    }
    if (m == -infinity()) return;
    float sum = 0.0f;
    for (int j = team.rank; j < n; j += Team::kSize) sum += expf(s(j) - m);
    sum = team.sum(sum) + expf(sink - m);
    log_sum = logf(sum), inverse = 1.0f / sum;
  }

  __device__ bool undefined() const { return log_sum != log_sum; }
  __device__ float stat() const { return undefined() ? log_sum : m + log_sum; }
  __device__ float log_weight(float s) const { return (s - m) - log_sum; }
  __device__ float weight(float s) const { return s == -infinity() ? 0.0f : expf(s - m) * inverse; }

  template <class Team>
  __device__ void prepare_gradient(const Team& team, const RowScores& s, const float* dw, int n) {
    float sum = 0.0f;
    for (int j = team.rank; j < n; j += Team::kSize) {
      const float w = weight(s(j));
      if (w != 0.0f) sum += w * dw[j];
    }
    beta -= team.sum(sum);
  }
  __device__ float gradient(float s, float w, float dw) const {
    if (w == 0.0f) return 0.0f;
    return w * (gamma == 0.0f ? dw + beta : fmaf(gamma, log_weight(s), dw + beta));
  }
};

}  // namespace fovea::cuda
