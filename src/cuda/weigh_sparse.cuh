// sparsemax: w = max(s − τ, 0), Σ w = 1.   entmax 1.5: w = max(s/2 − τ, 0)², Σ w = 1.
// With z = s − max, or half that, τ lies in [−1, 0]; the sum is convex and falls with τ, so that
// Newton's steps from −1 climb to the root. With r = 1 where w > 0, or √w:
//   ds = r·(dw − Σ r·dw / Σ r)
#pragma once

#include "cuda/noise.cuh"
#include "cuda/team.cuh"

namespace fovea::cuda {

template <bool kSquare>
struct SparseRow {
  float m = -infinity(), tau = 0.0f;  // NaN where a score is NaN or +inf
  float mean = 0.0f;

  template <class Team>
  __device__ SparseRow(const Team& team, const RowScores& s, int n, float) {
    float most = -infinity();
    bool bad = false;
    for (int j = team.rank; j < n; j += Team::kSize) {
      most = fmaxf(most, s(j));
      bad = bad || !(s(j) < infinity());
    }
    m = team.max(most);
    if (team.any(bad)) {
      tau = not_a_number();
      return;
    }
    if (m == -infinity()) return;
    tau = -1.0f;
    for (int iteration = 0; iteration < 64; ++iteration) {
      float sum = 0.0f, slope = 0.0f;
      for (int j = team.rank; j < n; j += Team::kSize) {
        const float above = root(s(j));
        sum += kSquare ? above * above : above;
        slope += kSquare ? 2.0f * above : above > 0.0f ? 1.0f : 0.0f;
      }
      sum = team.sum(sum);
      const float next = tau + (sum - 1.0f) / team.sum(slope);
      if (!(next > tau)) break;
      tau = next;
    }
  }

  __device__ float root(float s) const {
    return fmaxf((kSquare ? 0.5f : 1.0f) * (s - m) - tau, 0.0f);
  }
  __device__ bool undefined() const { return tau != tau; }
  __device__ float stat() const { return m == -infinity() ? m : tau + (kSquare ? 0.5f : 1.0f) * m; }
  __device__ float weight(float s) const {
    if (s == -infinity()) return 0.0f;
    const float above = root(s);
    return kSquare ? above * above : above;
  }

  template <class Team>
  __device__ void prepare_gradient(const Team& team, const RowScores& s, const float* dw, int n) {
    float above = 0.0f, below = 0.0f;
    for (int j = team.rank; j < n; j += Team::kSize) {
      const float w = weight(s(j));
      if (w == 0.0f) continue;
      const float r = kSquare ? sqrtf(w) : 1.0f;
      above += r * dw[j];
      below += r;
    }
    above = team.sum(above), below = team.sum(below);
    mean = below == 0.0f ? 0.0f : above / below;
  }
  __device__ float gradient(float, float w, float dw) const {
    return w == 0.0f ? 0.0f : (kSquare ? sqrtf(w) : 1.0f) * (dw - mean);
  }
};

using SparsemaxRow = SparseRow<false>;
using Entmax15Row = SparseRow<true>;

}  // namespace fovea::cuda
