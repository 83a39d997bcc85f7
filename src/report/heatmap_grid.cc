#include <algorithm>
#include <cmath>

#include "report/drawing.h"
#include "report/label.h"

// Labels and cells, as the files and the page draw them.
namespace fovea::report {

Labels labels_of(const Heatmap& map, int longest) {
  Labels labels;
  for (const std::string& row : map.rows) {
    labels.rows.push_back(cut(visible(row), longest));
    labels.longest_row = std::max(labels.longest_row, columns_of(labels.rows.back()));
  }
  for (const std::string& column : map.columns) {
    labels.columns.push_back(cut(visible(column), longest));
    labels.longest_column = std::max(labels.longest_column, columns_of(labels.columns.back()));
  }
  return labels;
}

bool upwards(const std::string& label) { return columns_of(label) > 2; }

namespace {

double longest(const std::vector<std::string>& labels) {
  double columns = 0;
  for (const std::string& label : labels) columns = std::max(columns, drawn_columns_of(label));
  return columns;
}

std::string row_axis(const MapGrid& grid) { return "← " + grid.axes.rows; }
std::string column_axis(const MapGrid& grid) { return grid.axes.columns + " →"; }

// Beside the labels of the rows, downwards, and above those of the columns.
void put_axes(Markup& svg, const MapGrid& grid) {
  const GridStyle& style = grid.style;
  if (!grid.axes.rows.empty()) {
    svg.put(
        R"x(<text class="muted end" transform="translate({:.1f} {:.1f}) rotate(-90)">{}</text>)x",
        style.line - style.drop, grid.top, escape(row_axis(grid)));
  }
  if (!grid.axes.columns.empty()) {
    svg.put(R"(<text class="muted" x="{:.1f}" y="{:.1f}">{}</text>)", grid.left,
            grid.top - grid.high - style.drop, escape(column_axis(grid)));
  }
}

}  // namespace

MapGrid grid_of(const Heatmap& map, const GridStyle& style) {
  const auto shown = [&](const std::string& axis) {
    return cut(visible(axis), style.longest_label);
  };
  MapGrid grid{
      style, labels_of(map, style.longest_label), {shown(map.axes.rows), shown(map.axes.columns)}};
  const Labels& labels = grid.labels;
  const double beside = map.axes.rows.empty() ? 0 : style.line;
  const double above = map.axes.columns.empty() ? 0 : style.line;
  const bool turned = std::ranges::any_of(labels.columns, upwards);
  grid.left = beside + std::ceil(style.letter * longest(labels.rows)) + style.gap;
  grid.high = (turned ? std::ceil(style.letter * longest(labels.columns)) : style.line) + style.gap;
  grid.top = above + grid.high;
  grid.right = grid.left + style.cell * static_cast<double>(map.columns.size());
  grid.bottom = grid.top + style.cell * static_cast<double>(map.rows.size());
  return grid;
}

double MapGrid::lowest() const {
  if (axes.rows.empty()) return bottom;
  return std::max(bottom, top + style.letter * drawn_columns_of(row_axis(*this)));
}

void put_labels(Markup& svg, const MapGrid& grid) {
  const GridStyle& style = grid.style;
  put_axes(svg, grid);
  const auto middle = [&](double first, size_t i) {
    return first + style.cell * (static_cast<double>(i) + 0.5);
  };
  svg.put(R"(<g class="cols">)");
  for (size_t j = 0; j < grid.labels.columns.size(); ++j) {
    const double x = middle(grid.left, j), y = grid.top - style.gap;
    const std::string label = escape(grid.labels.columns[j]);
    if (upwards(grid.labels.columns[j])) {
      svg.put(R"x(<text transform="translate({:.1f} {:.1f}) rotate(-90)">{}</text>)x",
              x + style.drop, y, label);
    } else {
      svg.put(R"(<text class="mid" x="{:.1f}" y="{:.1f}">{}</text>)", x, y, label);
    }
  }
  svg.put(R"(</g><g class="rows">)");
  for (size_t i = 0; i < grid.labels.rows.size(); ++i) {
    svg.put(R"(<text class="end" x="{:.1f}" y="{:.1f}">{}</text>)", grid.left - style.gap,
            middle(grid.top, i) + style.drop, escape(grid.labels.rows[i]));
  }
  svg.put("</g>");
}

Cells cells_of(const Heatmap& map, int pitch, int size) {
  Cells cells;
  const double full = full_weight(map);
  const size_t columns = map.columns.size(), step = static_cast<size_t>(pitch);
  for (size_t n = 0; n < map.weights.size(); ++n) {
    const double share = map.weights[n] / full;
    const bool known = !std::isnan(share);
    std::string& path =
        known ? cells.shaded[static_cast<size_t>(shade_of(share, map.scale))] : cells.unknown;
    path +=
        fmt::format("M{} {}h{}v{}h-{}z", n % columns * step, n / columns * step, size, size, size);
  }
  return cells;
}

}  // namespace fovea::report
