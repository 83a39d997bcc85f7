#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "image/image.h"
#include "report/picture.h"

namespace fovea::report {

// An image and where it was looked at: for each word, step or place, weights over a grid of
// rows × columns that covers the image. Drawn as a sheet: the image, then the image once for each
// look, dark where it was not looked at, with its largest weight and its entropy; signed weights
// are orange above 0 and blue below, over the image in pale grey. In a terminal looks side by side,
// in at most 16 rows and columns, sums of what is finer. Files: {"title","height","width","rows",
// "columns","looks":[{"label","weights":[[…]]}]}, no pixels; a look that has boxes has
// "boxes":[[left,top,width,height]].
struct SeenImage {
  struct Box {  // in the image's pixels
    double left = 0, top = 0, width = 0, height = 0;
  };
  struct Look {
    std::string label;
    std::vector<float> weights;  // row by row; none: the image as it is
    std::vector<Box> boxes;      // drawn as outlines
  };
  std::string title;
  image::Image image;
  int64_t rows = 0, columns = 0;
  Scale scale = Scale::from_zero;
  std::vector<Look> looks;
  // Where places look at each other: for each, its weights over all of them. For whoever points at
  // one; neither drawn nor written.
  std::vector<float> between;
  static const PictureKind& kind();
};

}  // namespace fovea::report
