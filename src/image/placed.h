#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "image/image.h"

// Small images made hard to find: placed anywhere on a larger canvas, among pieces of others.
namespace fovea::image {

enum class Placing : std::uint8_t {
  plain,      // as it is, in the middle
  anywhere,   // on the canvas; "translated" by name
  cluttered,  // and pieces of other images anywhere, too
  unsaid,     // as plain, until somebody chooses what suits the images
};
const char* name_of(Placing);
std::vector<Placing> placings();  // those to choose from

struct PlacedConfig {
  Placing placing = Placing::plain;
  std::int64_t canvas = 0;            // its side; 0: the image's own
  std::int64_t pieces = 4, side = 8;  // cluttered: how many, and how large
};
// The side of the canvas for images of this size; throws where they do not fit.
std::int64_t canvas_of(const PlacedConfig&, const Image&);

// Writes an image to canvas [side,side], which is overwritten; pieces are of the others. What is
// drawn depends on the seed alone.
void place(const PlacedConfig&, const Image&, std::span<const LabelledImage> others,
           std::uint64_t seed, std::span<float> canvas);

}  // namespace fovea::image
