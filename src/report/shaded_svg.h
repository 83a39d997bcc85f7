#pragma once

#include <string>
#include <vector>

#include "report/shaded.h"

namespace fovea::report {

// Texts one below the other, in a font whose letters are of one width.
struct ShadedDrawing {
  std::string svg;
  double width = 0, height = 0;
};
ShadedDrawing drawing_of(const std::vector<ShadedText>&);

}  // namespace fovea::report
