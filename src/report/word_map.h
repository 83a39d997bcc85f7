#pragma once

#include <string>
#include <vector>

#include "report/heatmap.h"
#include "report/picture.h"

namespace fovea::report {

// A heat-map with a word in each cell: cell [i·columns.size() + j] says words[…] and is as dark as
// its weight. In a terminal columns as broad as their words, as many as fit. `notes`, one for each
// cell or none, are what is seen under the pointer.
struct WordMap {
  std::string title;
  std::vector<std::string> rows, columns;
  std::vector<std::string> words, notes;
  std::vector<float> weights;
  Scale scale = Scale::from_zero;
  static const PictureKind& kind();
};

}  // namespace fovea::report
