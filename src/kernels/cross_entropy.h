#pragma once

#include "kernels/rowwise.h"

// A row's loss is −(1−s)·ln p[t] − s/C·Σ_c ln p[c], s the smoothing and C the row's length; 0 where
// t is ignored. Targets are inside 0 … C−1 or ignored.
namespace fovea::kernels {

struct Targets {
  const int64_t* ids;
  int64_t ignored;
  float smoothing;
};

// From ln p; returns how many rows were not ignored.
int64_t cross_entropy_rows(Rows, const Targets&, const float* log_p, float* loss);

// dx of the logits: d ln p = −(1−s)·[c = t] − s/C, times the row's d loss; then through
// log_softmax.
struct LossGradient {
  const float* d_loss;
  int64_t step;  // from a row's to the next; 0: one for all
  float factor;  // of each
};
void d_cross_entropy_rows(Rows, const Targets&, const LossGradient&, const float* log_p, float* dx);

}  // namespace fovea::kernels
