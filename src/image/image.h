#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fovea::image {

// Pixels from 0 to 1, row by row, the channels of a pixel side by side: 1 (grey) or 3 (red, green,
// blue).
struct Image {
  std::int64_t height = 0, width = 0, channels = 0;
  std::vector<float> pixels;
};

// An image and the class it belongs to, an index into the classes.
struct LabelledImage {
  Image image;
  std::int64_t label = 0;
  std::string name;  // of its file, where it has one
};

// Images with their classes, as read from files or drawn.
struct LabelledImages {
  std::vector<std::string> classes;
  std::vector<LabelledImage> images;
};

}  // namespace fovea::image
