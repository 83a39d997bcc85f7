#include "image/exif.h"

#include <algorithm>
#include <optional>

namespace fovea::image {
namespace {

// Numbers in bytes that may end anywhere: what lies outside is not there.
class Bytes {
 public:
  Bytes(std::string_view bytes, bool highest_first) : bytes_(bytes), big_(highest_first) {}

  std::optional<uint64_t> number(uint64_t at, uint64_t size) const {
    if (size > bytes_.size() || at > bytes_.size() - size) return {};
    uint64_t value = 0;
    for (uint64_t i = 0; i < size; ++i) {
      value = value << 8 | static_cast<uint8_t>(bytes_[at + (big_ ? i : size - 1 - i)]);
    }
    return value;
  }

 private:
  std::string_view bytes_;
  bool big_;
};

// EXIF is a small TIFF file: the order of its bytes, 42, the place of a directory; there a count
// and entries of 12 bytes, a tag, a type, a count and a value.
Orientation in_tiff(std::string_view tiff) {
  constexpr uint64_t kTag = 0x0112, kShort = 3, kEntry = 12;
  const bool big = tiff.starts_with("MM");
  if (!big && !tiff.starts_with("II")) return Orientation::top_left;
  const Bytes bytes(tiff, big);
  const auto directory = bytes.number(4, 4);
  const auto entries = directory ? bytes.number(*directory, 2) : std::nullopt;
  if (bytes.number(2, 2) != 42 || !entries) return Orientation::top_left;
  for (uint64_t i = 0; i < *entries; ++i) {
    const uint64_t at = *directory + 2 + i * kEntry;
    const auto tag = bytes.number(at, 2);
    if (!tag) break;
    if (*tag != kTag) continue;
    const auto value = bytes.number(at + 8, 2);
    const bool one = bytes.number(at + 2, 2) == kShort && bytes.number(at + 4, 4) == 1;
    if (one && value && *value >= 1 && *value <= 8) return static_cast<Orientation>(*value);
    break;
  }
  return Orientation::top_left;
}

// Segments: 0xFF, a marker, and most often a length that counts itself; pixels follow SOS.
std::string_view exif_of_jpeg(std::string_view file) {
  constexpr uint64_t kApp1 = 0xE1, kStartOfScan = 0xDA, kEnd = 0xD9;
  constexpr std::string_view kName("Exif\0\0", 6);
  const Bytes bytes(file, true);
  for (uint64_t at = 2;;) {
    if (bytes.number(at, 1) != 0xFF) return {};
    const auto marker = bytes.number(at + 1, 1);
    if (marker == 0xFF) {  // a byte that fills
      ++at;
      continue;
    }
    const auto length = bytes.number(at + 2, 2);
    if (!marker || marker == kStartOfScan || marker == kEnd || !length || *length < 2) return {};
    const std::string_view held = file.substr(at + 4, *length - 2);
    if (marker == kApp1 && held.starts_with(kName)) return held.substr(kName.size());
    at += 2 + *length;
  }
}

// Chunks: a length, a name, so many bytes, a checksum.
std::string_view exif_of_png(std::string_view file) {
  const Bytes bytes(file, true);
  for (uint64_t at = 8;;) {
    const auto length = bytes.number(at, 4);
    if (!length || at + 8 > file.size()) return {};
    if (file.substr(at + 4, 4) == "eXIf") return file.substr(at + 8, *length);
    at += 12 + *length;
  }
}

}  // namespace

Orientation orientation_in(std::string_view file) {
  return in_tiff(file.starts_with("\xff\xd8") ? exif_of_jpeg(file) : exif_of_png(file));
}

Image turned(Image x, Orientation o) {
  if (o == Orientation::top_left) return x;
  const auto is_any = [&](auto... names) { return ((o == names) || ...); };
  using enum Orientation;
  const bool sideways = is_any(left_top, right_top, right_bottom, left_bottom);
  const bool rows_back = is_any(bottom_right, bottom_left, right_top, right_bottom);
  const bool columns_back = is_any(top_right, bottom_right, right_bottom, left_bottom);
  Image y{sideways ? x.width : x.height, sideways ? x.height : x.width, x.channels, {}};
  y.pixels.reserve(x.pixels.size());
  for (int64_t i = 0; i < y.height; ++i) {
    for (int64_t j = 0; j < y.width; ++j) {
      const int64_t row = sideways ? j : i, column = sideways ? i : j;
      const int64_t at = (rows_back ? x.height - 1 - row : row) * x.width +
                         (columns_back ? x.width - 1 - column : column);
      const auto from = x.pixels.begin() + at * x.channels;
      y.pixels.insert(y.pixels.end(), from, from + x.channels);
    }
  }
  return y;
}

}  // namespace fovea::image
