#include <png.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "image/codecs.h"

// The only file that includes libpng, by the part of it that throws nothing over our frames.
namespace fovea::image {
namespace {

struct Png : png_image {
  Png() : png_image{} { version = PNG_IMAGE_VERSION; }
  ~Png() { png_image_free(this); }
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;
};

}  // namespace

Image decoded_png(std::string_view bytes, const std::string& name, const Limits& limits) {
  Png png;
  if (png_image_begin_read_from_memory(&png, bytes.data(), bytes.size()) == 0) {
    throw broken_image(name, std::string("a damaged PNG, ") + png.message);
  }
  expect_size(name, png.width, png.height, limits);
  // Deflate packs no more than 1032 to 1, and a pixel has a bit at least.
  if (int64_t{png.width} * png.height / 8 > 1032 * static_cast<int64_t>(bytes.size())) {
    throw broken_image(name, fmt::format("{} bytes cannot hold {} × {} pixels", bytes.size(),
                                         png.width, png.height));
  }
  const bool colour = (png.format & PNG_FORMAT_FLAG_COLOR) != 0;
  png.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
  png.format = colour ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  const png_color white{255, 255, 255};
  std::vector<uint8_t> rows(PNG_IMAGE_SIZE(png));
  Image x{png.height, png.width, colour ? 3 : 1, {}};
  if (png_image_finish_read(&png, &white, rows.data(), 0, nullptr) == 0) {
    throw broken_image(name, std::string("a damaged PNG, ") + png.message);
  }
  x.pixels.resize(rows.size());
  std::transform(rows.begin(), rows.end(), x.pixels.begin(),
                 [](uint8_t v) { return static_cast<float>(v) / 255.0f; });
  return x;
}

std::string to_png(const Image& x) {
  if ((x.channels != 1 && x.channels != 3) || x.height < 1 || x.width < 1 ||
      static_cast<int64_t>(x.pixels.size()) != x.height * x.width * x.channels) {
    throw Error("to_png", fmt::format("{} numbers for {} × {} pixels of {} channels",
                                      x.pixels.size(), x.height, x.width, x.channels));
  }
  std::vector<uint8_t> rows(x.pixels.size());
  std::transform(x.pixels.begin(), x.pixels.end(), rows.begin(), [](float v) {
    return static_cast<uint8_t>(std::lround(255.0f * std::clamp(v, 0.0f, 1.0f)));
  });
  Png png;
  png.width = static_cast<png_uint_32>(x.width);
  png.height = static_cast<png_uint_32>(x.height);
  png.format = x.channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  std::string bytes(PNG_IMAGE_PNG_SIZE_MAX(png), '\0');
  png_alloc_size_t size = bytes.size();
  if (png_image_write_to_memory(&png, bytes.data(), &size, 0, rows.data(), 0, nullptr) == 0) {
    throw Error("to_png", png.message);
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace fovea::image
