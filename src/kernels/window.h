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

}  // namespace fovea::kernels
