#pragma once

#include <string>
#include <string_view>

namespace fovea::image {

// An SVG drawing as a PNG file's bytes, `scale` pixels for each of its units, on white where it
// draws nothing. Text takes the fonts that the system has (fontconfig); a character that no font
// has becomes a box with its code. The same drawing and fonts give the same bytes.
struct SvgDrawing {
  std::string_view svg;
  double width = 0, height = 0, scale = 1;
};
std::string to_png(const SvgDrawing&);

// What to_png() draws at most. Cairo goes no further on a side; all pixels take 256 MiB.
inline constexpr double kLargestSide = 32767, kMostPixels = 1 << 26;
bool fits(const SvgDrawing&);

}  // namespace fovea::image
