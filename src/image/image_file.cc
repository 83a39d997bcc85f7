#include "image/image_file.h"

#include <algorithm>
#include <cctype>

#include "core/interrupt.h"
#include "image/codecs.h"
#include "image/exif.h"
#include "io/plain_file.h"

namespace fovea::image {
namespace {

constexpr std::string_view kPng = "\x89PNG\r\n\x1a\n", kJpeg = "\xff\xd8\xff";

std::string bytes_of(const std::filesystem::path& path, const Limits& limits) {
  try {
    return read_plain_file(path, static_cast<uint64_t>(limits.bytes));
  } catch (const Unreadable& error) {
    throw broken_image(path.string(), error.what());
  }
}

}  // namespace

Image decoded(std::string_view bytes, const std::string& name, const Limits& limits) {
  ask_to_go_on();
  if (bytes.starts_with(kPng)) {
    return turned(decoded_png(bytes, name, limits), orientation_in(bytes));
  }
  if (bytes.starts_with(kJpeg)) {
    return turned(decoded_jpeg(bytes, name, limits), orientation_in(bytes));
  }
  throw broken_image(name, bytes.empty() ? "the file is empty" : "it is neither PNG nor JPEG");
}

Image read_image(const std::filesystem::path& path, const Limits& limits) {
  return decoded(bytes_of(path, limits), path.string(), limits);
}

bool is_image_name(const std::filesystem::path& path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

bool is_image(const std::filesystem::path& path) {
  try {
    const PlainFile file(path);
    std::string begins(std::min<uint64_t>(file.bytes(), kPng.size()), '\0');
    file.read(0, begins.data(), begins.size());
    return begins == kPng || begins.starts_with(kJpeg);
  } catch (const Unreadable&) {
    return false;
  }
}

Image with_channels(Image x, int64_t channels) {
  if (channels != 1 && channels != 3) {
    throw Error("with_channels", fmt::format("channels are {}, expected 1 or 3", channels));
  }
  if (x.channels == channels) return x;
  Image y{x.height, x.width, channels, {}};
  const auto n = static_cast<size_t>(x.height * x.width);
  y.pixels.reserve(n * static_cast<size_t>(channels));
  for (size_t i = 0; i < n; ++i) {
    if (channels == 3) {
      y.pixels.insert(y.pixels.end(), 3, x.pixels[i]);
    } else {
      const float* p = &x.pixels[3 * i];
      y.pixels.push_back(0.299f * p[0] + 0.587f * p[1] + 0.114f * p[2]);
    }
  }
  return y;
}

}  // namespace fovea::image
