#pragma once

#include <cstdint>

namespace fovea::kernels {

// y_t = x_t + discount·y_{t+1}, from the last row on: y_t = Σ_{t'≥t} discount^{t'−t}·x_t'.
// x and y [T,n], dense.
void discounted_sums(int64_t T, int64_t n, const float* x, float discount, float* y);

}  // namespace fovea::kernels
