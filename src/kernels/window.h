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

// 1×1, one by one, no margin: what each place sees lies in the plane itself.
inline bool is_plain(const Window& w) {
  return w.KY * w.KX == 1 && w.stride_y * w.stride_x == 1 && w.pad_y + w.pad_x == 0;
}

}  // namespace fovea::kernels
