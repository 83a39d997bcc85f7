#pragma once

#include <string>
#include <vector>

#include "image/image.h"
#include "report/heatmap.h"

// What the drawings of a heat-map share.
namespace fovea::report {

void check(const Heatmap&);  // throws where the weights are not rows × columns

// The weight that gets the full colour: 1, or the largest where that is small or above 1.
double full_weight(const Heatmap&);

// From nothing (0) to full (1), lighter to darker on white and darker to lighter on black, in steps
// that look alike.
enum class Paper : uint8_t { white, black };
image::Colour colour_of(double share, Paper);
std::string hex(image::Colour);

// A map's labels as they are shown, and how to set them.
struct Labels {
  std::vector<std::string> rows, columns;
  int row_width = 0, column_width = 0;  // the longest, in characters
  bool turned = false;                  // columns' labels run upwards
};
Labels labels_of(const Heatmap&, int longest = 24);

image::Image draw(const std::vector<Heatmap>&);
std::string to_svg(const std::vector<Heatmap>&);

}  // namespace fovea::report
