#include "tasks/packed_image.h"

#include <algorithm>
#include <cmath>

namespace fovea::tasks {

PackedImage packed(const image::Image& x) {
  PackedImage bytes(x.pixels.size());
  std::transform(x.pixels.begin(), x.pixels.end(), bytes.begin(), [](float v) {
    return static_cast<uint8_t>(std::lround(255.0f * std::clamp(v, 0.0f, 1.0f)));
  });
  return bytes;
}

image::Image unpacked(const PackedImage& bytes, const image::Fit& fit) {
  image::Image x{fit.height, fit.width, fit.channels, {}};
  x.pixels.reserve(bytes.size());
  for (const uint8_t v : bytes) x.pixels.push_back(static_cast<float>(v) / 255.0f);
  return x;
}

Tensor tensor_of(std::span<const PackedImage* const> images, const image::Fit& fit) {
  const int64_t places = fit.height * fit.width, C = fit.channels;
  std::vector<float> all(images.size() * static_cast<size_t>(places * C));
  float* to = all.data();
  for (const PackedImage* x : images) {
    for (int64_t c = 0; c < C; ++c) {
      for (int64_t p = 0; p < places; ++p) {
        *to++ = static_cast<float>((*x)[static_cast<size_t>(p * C + c)]) / 255.0f;
      }
    }
  }
  return Tensor::from(all, {static_cast<int64_t>(images.size()), C, fit.height, fit.width});
}

}  // namespace fovea::tasks
