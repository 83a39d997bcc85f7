#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace fovea::image {

using Colour = std::array<uint8_t, 3>;  // red, green, blue

// Rows from the top, three bytes a pixel.
struct Image {
  int width = 0, height = 0;
  std::vector<uint8_t> rgb;
};

Image blank(int width, int height, Colour = {255, 255, 255});

// What lies outside the picture is left out.
void fill(Image&, int x, int y, int width, int height, Colour);

std::vector<uint8_t> encode_png(const Image&);
void write_png(const std::filesystem::path&, const Image&);  // whole or not at all

}  // namespace fovea::image
