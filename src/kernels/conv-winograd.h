#pragma once

#include "kernels/conv.h"

namespace fovea::kernels {

// 3×3 windows by fewer products (winograd-schemes-inl.h): one by one, or at every second place with
// a margin of one. An image whose result is not finite is computed again by unfolded(): a NaN
// would reach all of its tile, and large numbers overflow sooner.
bool winograd_can(const Convolution&);
void winograd(const Convolution&, const float* x, const float* w, float* y);
void winograd_d_x(const Convolution&, const float* w, const float* dy, float* dx);
void winograd_d_w(const Convolution&, const float* x, const float* dy, float* dw);

}  // namespace fovea::kernels
