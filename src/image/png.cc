#include <fmt/format.h>
#include <png.h>

#include "fovea/error.h"
#include "image/image.h"
#include "io/atomic_file.h"

namespace fovea::image {
namespace {

void check(const Image& picture) {
  const bool some = picture.width > 0 && picture.height > 0;
  const size_t pixels =
      some ? static_cast<size_t>(picture.width) * static_cast<size_t>(picture.height) : 0;
  if (!some || picture.rgb.size() != 3 * pixels) {
    throw Error("encode_png", fmt::format("a picture of {}×{} with {} bytes, expected 3 a pixel",
                                          picture.width, picture.height, picture.rgb.size()));
  }
}

}  // namespace

std::vector<uint8_t> encode_png(const Image& picture) {
  check(picture);
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(picture.width);
  header.height = static_cast<png_uint_32>(picture.height);
  header.format = PNG_FORMAT_RGB;
  std::vector<uint8_t> bytes(PNG_IMAGE_PNG_SIZE_MAX(header));
  png_alloc_size_t size = bytes.size();
  if (png_image_write_to_memory(&header, bytes.data(), &size, 0, picture.rgb.data(), 0, nullptr) ==
      0) {
    throw Error("encode_png", header.message);
  }
  bytes.resize(size);
  return bytes;
}

void write_png(const std::filesystem::path& path, const Image& picture) {
  const std::vector<uint8_t> bytes = encode_png(picture);
  AtomicFile file(path);
  file.write(bytes.data(), bytes.size());
  file.commit();
}

}  // namespace fovea::image
