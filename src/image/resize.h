#pragma once

#include <cstdint>

#include "image/image.h"

namespace fovea::image {

// Each side by itself: smaller by the mean over the area that becomes a pixel, larger by straight
// lines between pixels.
Image resized(const Image&, int64_t height, int64_t width);

struct Place {
  int64_t y = 0, x = 0, height = 0, width = 0;
};
Image cropped(const Image&, const Place&);  // throws unless the place lies inside

// To a size without distortion: as large as covers it, then its middle.
Image fitted(const Image&, int64_t height, int64_t width);

Image mirrored(const Image&);  // left becomes right

// Turned around its middle, clockwise, and made larger: a pixel of the result lies on straight
// lines between four of the image's, and what comes in from outside repeats the edge.
Image turned(const Image&, double degrees, double scale = 1);

// Small changes that leave what is to be seen: mirrored every other time; turned by up to `turn`
// degrees to either side; larger or smaller by up to `zoom`, and moved by up to `shift` of a side;
// lighter or darker by up to `light`.
struct Augmentation {
  bool mirror = false;
  double turn = 0, zoom = 0, shift = 0, light = 0;
  bool any() const { return mirror || turn > 0 || zoom > 0 || shift > 0 || light > 0; }
};
Image augmented(const Image&, const Augmentation&, uint64_t seed);

}  // namespace fovea::image
