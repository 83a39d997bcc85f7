#pragma once

#include <string>
#include <vector>

#include "report/picture.h"

namespace fovea::report {

// A text and where it was looked at: each line's weight among the lines, each word's among its
// line's. A word is as dark as their product. In a terminal a bar at the margin for each line,
// words on a ground of 24-bit colours, or in *one* to ***three*** stars; below 0 _lines_ in place
// of stars. Files: {"title","lines":[{"weight","words":[…],"weights":[…]}]}.
struct ShadedText {
  struct Line {
    float weight = 0;
    std::vector<std::string> words;  // UTF-8
    std::vector<float> weights;
  };
  std::string title;
  std::vector<Line> lines;
  Scale scale = Scale::from_zero;
  static const PictureKind& kind();
};

// What a word weighs in the whole text, and the largest size of these, which gets the full colour.
float weight_in_text(const ShadedText::Line&, size_t word);
float full_weight(const ShadedText&);  // 1 where there is none

}  // namespace fovea::report
