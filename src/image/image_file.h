#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "image/image.h"

// PNG and JPEG, in and out.
namespace fovea::image {

// What is read at most. A header that promises more is refused before memory is taken for it.
struct Limits {
  int64_t side = 16384;
  int64_t pixels = int64_t{1} << 26;
  int64_t bytes = int64_t{1} << 28;  // of a file
};

// Grey images have one channel, all others three. Palettes and 16 bits become 8, what is
// transparent lies on white, CMYK becomes red, green, blue; what EXIF says is turned stands
// upright. What is neither PNG nor JPEG, cut off, damaged or too large throws with the name.
Image decoded(std::string_view bytes, const std::string& name, const Limits& = {});
Image read_image(const std::filesystem::path&, const Limits& = {});

// By the name's ending, .png, .jpg or .jpeg in any case; by the file's first bytes.
bool is_image_name(const std::filesystem::path&);
bool is_image(const std::filesystem::path&);

// A PNG file's bytes, 8 bits a channel; values outside of 0 … 1 are cut.
std::string to_png(const Image&);

// As many channels as asked for, 1 or 3: grey is 0.299 R + 0.587 G + 0.114 B.
Image with_channels(Image, int64_t channels);

}  // namespace fovea::image
