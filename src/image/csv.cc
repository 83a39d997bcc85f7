#include "image/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

namespace fovea::image {
namespace {

constexpr int64_t kMostClasses = 1000, kLargestSide = 1024;

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  for (size_t from = 0; from <= line.size();) {
    const size_t to = std::min(line.find(',', from), line.size());
    std::string_view cell = line.substr(from, to - from);
    while (!cell.empty() && cell.front() == ' ') cell.remove_prefix(1);
    while (!cell.empty() && cell.back() == ' ') cell.remove_suffix(1);
    cells.push_back(cell);
    from = to + 1;
  }
  return cells;
}

std::optional<float> number_in(std::string_view cell) {
  float value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size()) return {};
  return value;
}

// Where a line of names puts the class; the last place where none does.
size_t class_among(const std::vector<std::string_view>& names) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == "label" || names[i] == "class") return i;
  }
  return names.size() - 1;
}

struct Layout {
  size_t cells = 0, class_at = 0;
  int64_t side = 0;
};

Layout layout_of(const text::Lines& lines, const std::vector<std::string_view>& first,
                 size_t class_at) {
  const auto pixels = static_cast<int64_t>(first.size()) - 1;
  const auto side = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(pixels))));
  if (side < 1 || side > kLargestSide || side * side != pixels) {
    lines.fail(
        fmt::format("{} values: expected those of a square image and its class", first.size()));
  }
  return {first.size(), class_at, side};
}

LabelledImage image_in(const text::Lines& lines, const std::vector<std::string_view>& cells,
                       const Layout& layout) {
  if (cells.size() != layout.cells) {
    lines.fail(fmt::format("{} values, the lines before have {}", cells.size(), layout.cells));
  }
  LabelledImage one{{layout.side, layout.side, 1, {}}, 0};
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::optional<float> value = number_in(cells[i]);
    const bool is_class = i == layout.class_at;
    const float most = is_class ? static_cast<float>(kMostClasses - 1) : 255.0f;
    if (!value || !(*value >= 0 && *value <= most) || (is_class && *value != std::floor(*value))) {
      lines.fail(fmt::format("value {} is '{}', expected {} from 0 to {}", i + 1,
                             cells[i].substr(0, 40), is_class ? "a class" : "a number", most));
    }
    if (is_class) {
      one.label = static_cast<int64_t>(*value);
    } else {
      one.image.pixels.push_back(*value);
    }
  }
  return one;
}

}  // namespace

LabelledImages parse_csv(text::Lines lines) {
  LabelledImages all;
  std::optional<size_t> class_at;
  std::optional<Layout> layout;
  float largest = 0;
  int64_t classes = 0;
  for (std::string line; lines.next(line);) {
    if (line.empty()) continue;
    const std::vector<std::string_view> cells = cells_of(line);
    if (!layout && !class_at && !number_in(cells[0])) {
      class_at = class_among(cells);
      continue;
    }
    if (!layout) layout = layout_of(lines, cells, class_at.value_or(cells.size() - 1));
    all.images.push_back(image_in(lines, cells, *layout));
    const LabelledImage& one = all.images.back();
    classes = std::max(classes, one.label + 1);
    for (const float v : one.image.pixels) largest = std::max(largest, v);
  }
  if (all.images.empty()) lines.fail("there are no images");
  const float white = largest <= 1 ? 1.0f : largest <= 16 ? 16.0f : 255.0f;
  for (LabelledImage& one : all.images) {
    for (float& v : one.image.pixels) v /= white;
  }
  for (int64_t k = 0; k < classes; ++k) all.classes.push_back(std::to_string(k));
  return all;
}

LabelledImages read_csv(const std::filesystem::path& path) {
  return parse_csv(text::Lines::of_file("csv", path));
}

}  // namespace fovea::image
