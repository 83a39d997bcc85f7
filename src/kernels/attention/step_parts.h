#pragma once

#include "kernels/attention/steps.h"

namespace fovea::kernels {

// What the rows of one call share.
struct StepForward {
  const float* q;
  float factor;
  float *p, *context;
};
struct AdditiveTargets {
  const RowsView<float>& d_keys;
  float* gr;  // [B,ld]: Σ g·r of each row
};

}  // namespace fovea::kernels
