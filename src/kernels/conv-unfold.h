#pragma once

#include "kernels/conv.h"

namespace fovea::kernels {

// Any convolution: what each weight meets is unfolded into columns, a strip at a time, for gemm().
void unfolded(const Convolution&, const float* x, const float* w, float* y);
void unfolded_d_x(const Convolution&, const float* w, const float* dy, float* dx);
void unfolded_d_w(const Convolution&, const float* x, const float* dy, float* dw);

}  // namespace fovea::kernels
