// Any bytes are an image of an allowed size with as many numbers as it has pixels, or throw
// fovea::Error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "fovea/error.h"
#include "image/image_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const fovea::image::Image x =
        fovea::image::decoded(bytes, "fuzz", {.side = 2048, .pixels = 1 << 20});
    const int64_t expected = x.height * x.width * x.channels;
    if (expected < 1 || static_cast<int64_t>(x.pixels.size()) != expected) std::abort();
  } catch (const fovea::Error&) {
  }
  return 0;
}
