#pragma once

#include <cstdint>

#include "kernels/window.h"

namespace fovea::kernels {

// Planes one by one: the window's C is 1. `from` records the winner's place, y·X + x; gradients are
// added to dx.
struct Pooling {
  Window window;
  int64_t planes;
};
void max_pool(const Pooling&, const float* x, float* y, int64_t* from);
void d_max_pool(const Pooling&, const int64_t* from, const float* dy, float* dx);
void avg_pool(const Pooling&, const float* x, float* y);
void d_avg_pool(const Pooling&, const float* dy, float* dx);

}  // namespace fovea::kernels
