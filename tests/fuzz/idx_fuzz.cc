// Any bytes are an idx file or throw fovea::Error; one holds as many values as it says, and its
// images pixels from 0 to 1. The same for images in CSV.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "fovea/error.h"
#include "image/csv.h"
#include "image/idx.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const fovea::image::Image& image) {
  require(static_cast<int64_t>(image.pixels.size()) == image.height * image.width);
  for (const float v : image.pixels) require(v >= 0 && v <= 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fovea::image;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    std::string_view rest = bytes;
    const Idx idx = parse_idx("fuzz", [&](char* to, size_t most) {
      const size_t n = std::min(most, rest.size());
      if (n > 0) std::memcpy(to, rest.data(), n);
      rest.remove_prefix(n);
      return n;
    });
    int64_t count = 1;
    for (const int64_t n : idx.shape) count *= n;
    require(count == static_cast<int64_t>(idx.values.size()));
    for (const Image& image : images_of("fuzz", idx)) check(image);
  } catch (const fovea::Error&) {
  }
  for (const char* column : {"", "first", "last", "2", "label"}) {
    try {
      const LabelledImages all =
          parse_csv(fovea::text::LineReader::of_memory("csv", "fuzz", bytes), column);
      for (const LabelledImage& one : all.images) {
        check(one.image);
        require(one.label >= 0 && one.label < static_cast<int64_t>(all.classes.size()));
      }
    } catch (const fovea::Error&) {
    }
  }
  return 0;
}
