#pragma once

#include <cstdint>

namespace fovea::kernels {

// Patches around places of images [B,Y,X], N of them, row i of image i mod B. A place is (x, y) in
// [−1,1]²: the image's corners. Scale s = 0, 1, … is a square of size·2^s pixels whose corner is
// rounded to a pixel, averaged down to size × size; black outside.
struct Glimpses {
  int64_t B, Y, X;
  int64_t N, size, scales;
};
// places [N,2] → seen [N,scales,size,size]
void sense(const Glimpses&, const float* images, const float* places, float* seen);

// The first pixel of a square of `side` around place p of `length` pixels.
int64_t first_pixel(float p, int64_t side, int64_t length);

}  // namespace fovea::kernels
