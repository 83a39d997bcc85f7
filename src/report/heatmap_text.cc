#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/drawing.h"
#include "report/label.h"
#include "text/utf8.h"

namespace fovea::report {
namespace {

constexpr int kCellColumns = 2;  // columns of the terminal a weight takes
constexpr size_t kStairs = 16;   // columns of a map whose labels may stand one a line
constexpr int kLongestRow = 20, kLongestColumn = 12;

std::string blanks(int n) { return std::string(static_cast<size_t>(std::max(n, 0)), ' '); }

// The same below 0: blues, or blocks with a minus.
std::string cell_below(float size, Ink ink) {
  if (ink == Ink::colour) {
    const float x = std::sqrt(std::min(size, 1.0f));
    return fmt::format("\x1b[48;2;{};{};{}m  \x1b[0m", static_cast<int>(24 + 40 * x * x),
                       static_cast<int>(24 + 130 * x * x), static_cast<int>(40 + 200 * x));
  }
  static constexpr const char* kBlocks[] = {"··", "−░", "−▒", "−▓", "−█"};
  return kBlocks[(size > 0.05f) + (size > 0.2f) + (size > 0.45f) + (size > 0.7f)];
}

}  // namespace

std::string cell_of(float share, Ink ink) {
  if (std::isnan(share)) return "??";
  if (share < 0) return cell_below(-share, ink);
  if (ink == Ink::colour) {
    const float x = std::sqrt(std::clamp(share, 0.0f, 1.0f));
    const int red = static_cast<int>(24 + 231 * x), green = static_cast<int>(24 + 160 * x * x),
              blue = static_cast<int>(40 + 30 * x);
    return fmt::format("\x1b[48;2;{};{};{}m  \x1b[0m", red, green, blue);
  }
  static constexpr const char* kBlocks[] = {"··", "░░", "▒▒", "▓▓", "██"};
  return kBlocks[(share > 0.05f) + (share > 0.2f) + (share > 0.45f) + (share > 0.7f)];
}

namespace {

// The columns' labels, as lines above the cells.
using Lines = std::vector<std::string>;

Lines in_one_line(const std::vector<std::string>& labels) {
  std::string line;
  for (const std::string& label : labels) line += padded(label, kCellColumns);
  return {line};
}

// ┌ the
// │ ┌ cat
// │ │ ┌ sat
Lines as_stairs(const std::vector<std::string>& labels, int room) {
  Lines lines;
  std::string stems;
  for (size_t i = 0; i < labels.size(); ++i, stems += "│ ") {
    const int used = (static_cast<int>(i) + 1) * kCellColumns;
    lines.push_back(stems + "┌ " + cut(labels[i], room - used));
  }
  return lines;
}

// t c s
// h a a
// e t t
Lines downwards(const std::vector<std::string>& labels) {
  std::vector<Lines> letters;
  size_t height = 0;
  for (const std::string& label : labels) {
    letters.push_back(text::graphemes(cut(label, kLongestColumn)));
    height = std::max(height, letters.back().size());
  }
  Lines lines(height);
  for (const Lines& label : letters) {
    for (size_t y = 0; y < height; ++y) {
      const size_t skipped = height - label.size();
      lines[y] += padded(y < skipped ? "" : label[y - skipped], kCellColumns);
    }
  }
  return lines;
}

Lines heading(const Labels& labels, int room) {
  if (labels.longest_column <= 1) return in_one_line(labels.columns);
  const bool single =
      std::all_of(labels.columns.begin(), labels.columns.end(),
                  [](const std::string& label) { return text::graphemes(label).size() <= 1; });
  if (single && labels.longest_column <= kCellColumns) return in_one_line(labels.columns);
  if (labels.columns.size() <= kStairs) return as_stairs(labels.columns, room);
  return downwards(labels.columns);
}

void trim(std::string& line) {
  while (!line.empty() && line.back() == ' ') line.pop_back();
}

}  // namespace

std::string text_of(const Heatmap& map, Ink ink, int width) {
  Labels labels = labels_of(map, 1 << 20);
  const int left = std::clamp(std::min(labels.longest_row, width / 3), 1, kLongestRow);
  const int room = std::max(width - left - 1, kCellColumns + 1);
  const size_t fitting = static_cast<size_t>(room / kCellColumns);
  const bool all = map.columns.size() <= fitting;
  const size_t shown = all ? map.columns.size() : static_cast<size_t>((room - 1) / kCellColumns);
  labels.columns.resize(shown);

  std::string text = map.title.empty() ? "" : visible(map.title) + "\n";
  if (map.rows.empty() || map.columns.empty()) return text + "(nothing)\n";
  for (std::string& line : heading(labels, room)) {
    line.insert(0, blanks(left + 1));
    trim(line);
    text += line + "\n";
  }
  const auto full = static_cast<float>(full_weight(map));
  for (size_t i = 0; i < map.rows.size(); ++i) {
    const std::string label = cut(labels.rows[i], left);
    text += blanks(left - columns_of(label)) + label + " ";
    for (size_t j = 0; j < shown; ++j) {
      const float share = map.weights[i * map.columns.size() + j] / full;
      const bool hidden = share < 0 && map.scale == Scale::from_zero;
      text += cell_of(hidden ? 0.0f : share, ink);
    }
    text += all ? "\n" : "…\n";
  }
  if (full != 1.0f)
    text += fmt::format("{}{} = {}\n", blanks(left + 1), cell_of(1, ink), number(full_weight(map)));
  return text;
}

}  // namespace fovea::report
