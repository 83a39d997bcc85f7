#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "fovea/error.h"
#include "image/image_file.h"

// What the two formats share.
namespace fovea::image {

Image decoded_png(std::string_view bytes, const std::string& name, const Limits&);
Image decoded_jpeg(std::string_view bytes, const std::string& name, const Limits&);

inline Error broken_image(const std::string& name, const std::string& why) {
  return {"read_image", fmt::format("{}: {}", name, why)};
}

// Before any pixel is read.
inline void expect_size(const std::string& name, int64_t width, int64_t height, const Limits& l) {
  if (width < 1 || height < 1) throw broken_image(name, "it has no pixels");
  if (width > l.side || height > l.side || width > l.pixels / height) {
    throw broken_image(name, fmt::format("{} × {} pixels; at most {} on a side and {} million in "
                                         "all are read",
                                         width, height, l.side, l.pixels / 1000000));
  }
}

}  // namespace fovea::image
