#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "image/image.h"
#include "report/picture.h"

namespace fovea::report {

// A grey image and where it was looked at, glimpse by glimpse. Drawn: the image with the path, over
// the density of other ways where there are some; beside it what each glimpse saw, the sharpest
// above. In a terminal the image in letters, the glimpses in it by their numbers.
struct Scanpath {
  struct Place {  // in pixels of the image
    double x = 0, y = 0;
  };
  struct Glimpse {
    double x = 0, y = 0;             // its middle, in pixels of the image
    std::vector<double> sides;       // of the squares around it, in pixels, the sharpest first
    std::vector<image::Image> seen;  // what was seen of each
    std::string said;                // what the answer would have been then
    std::vector<float> shares;       // how likely each class was then, if that is known
  };
  std::string title;
  image::Image image;
  std::vector<Glimpse> glimpses;
  std::vector<std::string> classes;        // that `shares` are of
  std::vector<std::vector<Place>> others;  // ways that chance might have led: shown as density
  static const PictureKind& kind();
};

// How often the other ways looked where, on a grid of squares over the image.
struct Density {
  int64_t rows = 0, columns = 0;
  double side = 1;                // of a square, in pixels of the image
  std::vector<int64_t> glimpses;  // row by row
  int64_t most = 0;
};
Density density_of(const Scanpath&);

}  // namespace fovea::report
