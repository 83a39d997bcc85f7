#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/picture.h"

namespace fovea::report {

// All weights of several heads at once: a line from each query, on the left, to each key, on the
// right, in the head's colour and as opaque as it weighs. Head h gave query i's weight for key j
// as [(h·rows.size() + i)·columns.size() + j].
struct Lines {
  std::string title;
  std::vector<std::string> rows, columns;  // UTF-8; queries, keys
  std::vector<int64_t> heads;              // their numbers, from 1, which choose the colours
  std::vector<float> weights;
  static const PictureKind& kind();
};

}  // namespace fovea::report
