// Weights of each score by itself: sigmoid, w = 1/(1 + e^{−s}), ds = w·(1 − w)·dw; none, w = s,
// ds = dw. Where dw is 0, as of a dropped weight, so is ds.
#pragma once

#include "cuda/noise.cuh"

namespace fovea::cuda {

struct AloneRow {
  template <class Team>
  __device__ AloneRow(const Team&, const RowScores&, int, float) {}
  __device__ bool undefined() const { return false; }
  __device__ float stat() const { return -infinity(); }
  template <class Team>
  __device__ void prepare_gradient(const Team&, const RowScores&, const float*, int) {}
};

struct SigmoidRow : AloneRow {
  using AloneRow::AloneRow;
  __device__ float weight(float s) const {
    if (s == -infinity()) return 0.0f;
    const float e = expf(-fabsf(s));
    return (s >= 0.0f ? 1.0f : e) / (1.0f + e);
  }
  __device__ float gradient(float, float w, float dw) const {
    return dw == 0.0f ? 0.0f : w * (1.0f - w) * dw;
  }
};

struct PlainRow : AloneRow {
  using AloneRow::AloneRow;
  __device__ float weight(float s) const { return s == -infinity() ? 0.0f : s; }
  __device__ float gradient(float, float, float dw) const { return dw; }
};

}  // namespace fovea::cuda
