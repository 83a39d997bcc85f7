#include <algorithm>
#include <cmath>

#include "image/font.h"
#include "report/label.h"
#include "report/picture.h"

// Heat-maps as pixels, on white.
namespace fovea::report {
namespace {

using image::Image;

constexpr image::Colour kInk = {31, 36, 46}, kMuted = {104, 112, 126}, kRule = {208, 213, 221},
                        kUnknown = {190, 190, 190};
constexpr int kScale = 2, kLetter = image::kGlyphWidth * kScale,
              kLine = image::kGlyphHeight * kScale;
constexpr int kCell = 28, kMargin = 24, kGap = 10, kLegend = 160;

int wide(const std::string& text) { return image::glyphs(text) * kLetter; }

struct Layout {
  Labels labels;
  std::string title;
  int left, top;  // of the cells, from the map's own corner
  int width, height;
};

Layout layout_of(const Heatmap& map) {
  Layout layout{labels_of(map), cut(visible(map.title), 120), 0, 0, 0, 0};
  int longest_row = 0, longest_column = 0;
  for (const std::string& row : layout.labels.rows) longest_row = std::max(longest_row, wide(row));
  for (const std::string& c : layout.labels.columns) {
    longest_column = std::max(longest_column, wide(c));
  }
  layout.left = longest_row + kGap;
  layout.top = (layout.title.empty() ? 0 : kLine + kGap) +
               (layout.labels.turned ? longest_column : kLine) + kGap;
  const int cells = kCell * static_cast<int>(map.columns.size());
  layout.width = std::max({layout.left + cells, wide(layout.title), layout.left + kLegend + 96});
  layout.height = layout.top + kCell * static_cast<int>(map.rows.size()) + 2 * kGap + kLine;
  return layout;
}

void draw_labels(Image& picture, const Layout& at, int x, int y) {
  for (size_t j = 0; j < at.labels.columns.size(); ++j) {
    const std::string& label = at.labels.columns[j];
    const int middle = x + at.left + kCell * static_cast<int>(j) + kCell / 2;
    if (at.labels.turned) {
      draw_text(picture, middle - kLine / 2 - kScale, y + at.top - kGap, label,
                {kInk, kScale, true});
    } else {
      draw_text(picture, middle - (wide(label) - kScale) / 2, y + at.top - kGap - kLine + kScale,
                label, {kInk, kScale});
    }
  }
  for (size_t i = 0; i < at.labels.rows.size(); ++i) {
    const std::string& label = at.labels.rows[i];
    const int middle = y + at.top + kCell * static_cast<int>(i) + kCell / 2;
    draw_text(picture, x + at.left - kGap - wide(label), middle - kLine / 2 - kScale, label,
              {kInk, kScale});
  }
}

void draw_cells(Image& picture, const Heatmap& map, const Layout& at, int x, int y) {
  const double full = full_weight(map);
  const int columns = static_cast<int>(map.columns.size()),
            rows = static_cast<int>(map.rows.size());
  fill(picture, x + at.left - 1, y + at.top - 1, columns * kCell + 1, rows * kCell + 1, kRule);
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j) {
      const float weight = map.weights[static_cast<size_t>(i * columns + j)];
      const image::Colour colour =
          std::isnan(weight) ? kUnknown : colour_of(weight / full, Paper::white);
      fill(picture, x + at.left + j * kCell, y + at.top + i * kCell, kCell - 1, kCell - 1, colour);
    }
  }
}

void draw_legend(Image& picture, double full, int x, int y) {
  draw_text(picture, x, y, "0", {kMuted, kScale});
  for (int i = 0; i < kLegend; ++i) {
    fill(picture, x + kLetter + kGap + i, y + 8, 1, kLine - 12,
         colour_of((i + 0.5) / kLegend, Paper::white));
  }
  draw_text(picture, x + kLetter + 2 * kGap + kLegend, y, number(full), {kMuted, kScale});
}

void draw_map(Image& picture, const Heatmap& map, const Layout& at, int x, int y) {
  draw_text(picture, x, y - kScale, at.title, {kInk, kScale});
  if (map.weights.empty()) {
    draw_text(picture, x, y + at.top, "(nothing)", {kMuted, kScale});
    return;
  }
  draw_labels(picture, at, x, y);
  draw_cells(picture, map, at, x, y);
  draw_legend(picture, full_weight(map), x + at.left, y + at.height - kLine);
}

}  // namespace

Image draw(const std::vector<Heatmap>& maps) {
  std::vector<Layout> layouts;
  int width = 0, height = kMargin;
  for (const Heatmap& map : maps) {
    check(map);
    layouts.push_back(layout_of(map));
    width = std::max(width, layouts.back().width);
    height += layouts.back().height + kMargin;
  }
  Image picture = image::blank(width + 2 * kMargin, height);
  int y = kMargin;
  for (size_t i = 0; i < maps.size(); ++i) {
    draw_map(picture, maps[i], layouts[i], kMargin, y);
    y += layouts[i].height + kMargin;
  }
  return picture;
}

}  // namespace fovea::report
