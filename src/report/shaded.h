#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "report/heatmap.h"

namespace fovea::report {

// A text and where it was looked at: each line's weight among the lines, each word's among its
// line's. A word is as dark as their product.
struct ShadedText {
  struct Line {
    float weight = 0;
    std::vector<std::string> words;  // UTF-8
    std::vector<float> weights;
  };
  std::string title;
  std::vector<Line> lines;
  Scale scale = Scale::from_zero;
};
void check(const ShadedText&);  // throws where a line has more or fewer weights than words

// What a word weighs in the whole text, and the largest size of these, which gets the full colour.
float weight_in_text(const ShadedText::Line&, size_t word);
float full_weight(const ShadedText&);  // 1 where there is none

std::string to_json(const ShadedText&);  // {"title","lines":[{"weight","words":[…],"weights":[…]}]}

// For a terminal: a bar at the margin for each line, words on a ground of 24-bit colours, or in
// *one* to ***three*** stars; below 0 _lines_ in place of stars.
std::string to_text(const ShadedText&, Ink, int width = 80);

// By the ending: .json (a list where they are several), .svg or .png. Whole or not at all.
void write(const std::filesystem::path&, const std::vector<ShadedText>&);

}  // namespace fovea::report
