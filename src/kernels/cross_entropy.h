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

// ln p = (x − max) − log, log = ln Σ e^(x−max): one of each per row, kept instead of all ln p.
struct LogSums {
  float* max;
  float* log;
};

// From logits; returns how many rows were not ignored.
int64_t cross_entropy_rows(Rows, const Targets&, const float* x, LogSums, float* loss);

// dx = g·(p − (1−s)·[c = t] − s/C), g the row's d loss; 0 where t is ignored.
struct LossGradient {
  const float* d_loss;
  int64_t step;  // from a row's to the next; 0: one for all
  float factor;  // of each
};
void d_cross_entropy_rows(Rows, const Targets&, const LossGradient&, const float* x, LogSums,
                          float* dx);

}  // namespace fovea::kernels
