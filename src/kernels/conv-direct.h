#pragma once

#include "kernels/conv.h"

namespace fovea::kernels {

// Products that read x where it lies, rows of it with their margins: nothing is unfolded. Lanes are
// outputs, or places where there are few outputs and the window moves by one.
bool direct_can(const Convolution&);
void direct(const Convolution&, const float* x, const float* w, float* y);
bool few_outputs_can(const Convolution&);
void few_outputs(const Convolution&, const float* x, const float* w, float* y);
void direct_d_w(const Convolution&, const float* x, const float* dy, float* dw);

}  // namespace fovea::kernels
