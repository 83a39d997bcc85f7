#include "image/image.h"

#include <algorithm>

namespace fovea::image {

Image blank(int width, int height, Colour colour) {
  Image picture{width, height, {}};
  picture.rgb.resize(size_t{3} * static_cast<size_t>(width) * static_cast<size_t>(height));
  fill(picture, 0, 0, width, height, colour);
  return picture;
}

void fill(Image& picture, int x, int y, int width, int height, Colour colour) {
  const int right = std::min(x + width, picture.width);
  const int bottom = std::min(y + height, picture.height);
  for (int row = std::max(y, 0); row < bottom; ++row) {
    for (int column = std::max(x, 0); column < right; ++column) {
      const size_t pixel = static_cast<size_t>(row) * static_cast<size_t>(picture.width) +
                           static_cast<size_t>(column);
      std::copy(colour.begin(), colour.end(),
                picture.rgb.begin() + static_cast<std::ptrdiff_t>(3 * pixel));
    }
  }
}

}  // namespace fovea::image
