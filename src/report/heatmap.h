#pragma once

#include <string>
#include <vector>

#include "report/picture.h"

namespace fovea::report {

// Who looked where: row i gave weight [i·columns.size() + j] to column j. In a terminal a line per
// row, blocks that fill up, or 24-bit colours; columns are labelled above, cut where the
// terminal's width ends. Files: {"title","rows","columns","weights":[[…]]}; maps one below the
// other, in columns where they are many; what rows and columns are stands at the axes.
struct Heatmap {
  struct Axes {
    std::string rows, columns;  // "written" and "read"; empty: nothing is said
  };
  std::string title;
  std::vector<std::string> rows, columns;  // UTF-8
  std::vector<float> weights;
  Scale scale = Scale::from_zero;
  Axes axes = {};
  static const PictureKind& kind();
};

}  // namespace fovea::report
