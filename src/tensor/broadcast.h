#pragma once

#include "fovea/tensor.h"

namespace fovea {

// The shape both broadcast to: sizes are equal or 1, aligned at the end.
// Throws "[call] a is [2, 3], b is [4]: sizes must be equal or 1".
Shape broadcast_shape(const char* call, const Shape& a, const Shape& b);

// x summed over the dimensions along which `shape` was broadcast to it: broadcasting's gradient.
Tensor sum_to(const Tensor& x, const Shape& shape);

}  // namespace fovea
