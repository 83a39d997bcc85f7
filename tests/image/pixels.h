#pragma once

#include <cairo.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

// PNG files read back by Cairo.
namespace fovea::image {

struct Pixels {
  std::shared_ptr<cairo_surface_t> surface;
  int width() const { return cairo_image_surface_get_width(surface.get()); }
  int height() const { return cairo_image_surface_get_height(surface.get()); }

  // Red, green, blue.
  std::array<uint8_t, 3> at(int x, int y) const {
    const unsigned char* row = cairo_image_surface_get_data(surface.get()) +
                               y * cairo_image_surface_get_stride(surface.get());
    uint32_t pixel = 0;
    std::memcpy(&pixel, row + 4 * x, 4);
    return {static_cast<uint8_t>(pixel >> 16), static_cast<uint8_t>(pixel >> 8),
            static_cast<uint8_t>(pixel)};
  }

  // Pixels of x < right that are darker than a middle grey.
  int dark(int right) const {
    int count = 0;
    for (int y = 0; y < height(); ++y) {
      for (int x = 0; x < right; ++x) {
        const auto [r, g, b] = at(x, y);
        count += r + g + b < 3 * 128;
      }
    }
    return count;
  }
  int dark() const { return dark(width()); }
};

inline Pixels pixels_of(const std::string& png) {
  std::string_view rest = png;
  const auto read = [](void* from, unsigned char* to, unsigned int bytes) {
    auto& left = *static_cast<std::string_view*>(from);
    if (left.size() < bytes) return CAIRO_STATUS_READ_ERROR;
    std::memcpy(to, left.data(), bytes);
    left.remove_prefix(bytes);
    return CAIRO_STATUS_SUCCESS;
  };
  return {{cairo_image_surface_create_from_png_stream(read, &rest), cairo_surface_destroy}};
}

}  // namespace fovea::image
