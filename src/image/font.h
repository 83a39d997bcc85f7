#pragma once

#include <string_view>

#include "image/image.h"

// A small fixed-width font: ASCII, the punctuation of tokens, Latin letters with their accents;
// anything else is a box.
namespace fovea::image {

inline constexpr int kGlyphWidth = 6, kGlyphHeight = 12;  // in dots, the gaps included

struct Pen {
  Colour colour{};
  int scale = 2;         // pixels a dot
  bool upwards = false;  // turned a quarter to the left: reads from the bottom
};

int glyphs(std::string_view utf8);  // how many places it takes

// (x, y) is where the text's box starts: its top left corner, or upwards its bottom left one.
void draw_text(Image&, int x, int y, std::string_view utf8, const Pen&);

}  // namespace fovea::image
