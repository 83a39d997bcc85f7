#pragma once

#include <cstdint>

#include "kernels/screen.h"

namespace fovea::kernels {

// What the passes over all rows share.
struct ScreenPass {
  const Screen& screen;
  const int32_t* x;  // steps of x, two by two
  float step;
  float x_norm, x_lost;  // ‖x‖, ‖x − x̂‖
  float* logits;         // [padded], as all of these
  float* reach;          // ε
  float* parts;          // logit − ε, then e^{logit − largest}
};

}  // namespace fovea::kernels
