#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace fovea::report {

// Weights from nothing to full, or signed ones around 0, in two colours.
enum class Scale : uint8_t { from_zero, around_zero };

// Who looked where: row i gave weight [i·columns.size() + j] to column j.
struct Heatmap {
  std::string title;
  std::vector<std::string> rows, columns;  // UTF-8; what was written, what was read
  std::vector<float> weights;
  Scale scale = Scale::from_zero;
};

std::string to_svg(const Heatmap&);
std::string to_json(const Heatmap&);  // {"title","rows","columns","weights":[[…]]}

// For a terminal: a line per row, blocks that fill up, or 24-bit colours; columns are labelled
// above, cut where the terminal's width ends.
enum class Ink : uint8_t { plain, colour };
std::string to_text(const Heatmap&, Ink, int width = 80);

// By the ending: .json, .svg or .png; anything else throws.
enum class PictureFormat : uint8_t { json, svg, png };
PictureFormat picture_format(const std::filesystem::path&);

// Several become one file (JSON: a list; pictures: one below the other, in columns where they are
// many). Whole or not at all.
void write(const std::filesystem::path&, const std::vector<Heatmap>&);

}  // namespace fovea::report
