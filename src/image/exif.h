#pragma once

#include <cstdint>
#include <string_view>

#include "image/image.h"

// How a camera was held: phones store pixels as the sensor has them and say beside them, in EXIF,
// how they are to be turned.
namespace fovea::image {

// Where the first row and the first column of what is stored belong, by EXIF's numbers.
enum class Orientation : std::uint8_t {
  top_left = 1,  // as it is
  top_right,
  bottom_right,
  bottom_left,
  left_top,
  right_top,
  right_bottom,
  left_bottom,
};

// What a PNG or JPEG file says; as it is where it says nothing, or nothing that can be believed.
Orientation orientation_in(std::string_view file);

Image turned(Image, Orientation);  // as it is to be seen

}  // namespace fovea::image
