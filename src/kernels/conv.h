#pragma once

#include <cstdint>

namespace fovea::kernels {

// A window that slides over planes [C,Y,X] and stops at OY×OX places.
struct Window {
  int64_t C, Y, X;
  int64_t KY, KX;
  int64_t stride_y, stride_x, pad_y, pad_x, dilation_y, dilation_x;
  int64_t OY, OX;
};

// columns [C·KY·KX, OY·OX]: what each weight meets at each place; 0 outside.
void unfold(const Window&, const float* x, float* columns);
// x += the columns, back where they came from.
void fold(const Window&, const float* columns, float* x);

// One plane each (C = 1). `from` records the winner's place, y·X + x.
void max_pool(const Window&, const float* x, float* y, int64_t* from);
void avg_pool(const Window&, const float* x, float* y);
void d_avg_pool(const Window&, const float* dy, float* dx);

}  // namespace fovea::kernels
