#include <algorithm>
#include <cmath>

#include "report/drawing.h"
#include "report/files.h"
#include "report/label.h"
#include "report/written.h"

// Heat-maps as SVG files: fills as attributes for a white page, and a style that changes them on a
// dark one.
namespace fovea::report {
namespace {

constexpr int kMapCell = 24;
constexpr double kMapMargin = 16, kMapGap = 8, kMapLine = 18, kLegend = 128, kMapLetter = 8.6;
constexpr double kTallest = 16000;  // of a column of maps
constexpr int kLongestTitle = 120;
constexpr GridStyle kStyle = {.cell = kMapCell,
                              .gap = kMapGap,
                              .letter = kMapLetter,
                              .line = kMapLine,
                              .drop = 5,
                              .longest_label = 32};

Sheet::Placed placed(const Picture& picture) {
  const auto& map = picture.get<Heatmap>();
  Sheet::Placed at{.picture = picture, .title = cut(visible(map.title), kLongestTitle)};
  at.grid = grid_of(map, kStyle);
  if (!at.title.empty()) at.grid.top += kMapLine + kMapGap, at.grid.bottom += kMapLine + kMapGap;
  const double ends = (map.scale == Scale::from_zero ? 10 : 18) * kMapGap;  // of the legend
  at.width = std::max(
      {at.grid.right, kMapLetter * drawn_columns_of(at.title), at.grid.left + kLegend + ends});
  at.height = at.grid.lowest() + 2 * kMapGap + kMapLine;
  return at;
}

std::string style() {
  return fmt::format("{}@media(prefers-color-scheme:dark){{{}}}", files::picture_css,
                     shade_rules(Background::black));
}

void put_cells(Markup& svg, const Sheet::Placed& at) {
  const Cells cells = cells_of(at.map(), kMapCell, kMapCell - 1);
  svg.put(R"(<path class="mesh" fill="#d0d5dd" d="M-1-1h{}v{}H-1z"/>)",
          at.grid.right - at.grid.left + 1, at.grid.bottom - at.grid.top + 1);
  for (int k = 0; k < kShades; ++k) {
    const std::string& path = cells.shaded[static_cast<size_t>(k)];
    if (path.empty()) continue;
    svg.put(R"(<path class="{}{}" fill="{}" d="{}"/>)", shade_letter(at.map().scale), k,
            hex(shade(k, Background::white, at.map().scale)), path);
  }
  if (!cells.unknown.empty()) {
    svg.put(R"(<path class="unknown" fill="#bebebe" d="{}"/>)", cells.unknown);
  }
}

void put_hints(Markup& svg, const Heatmap& map) {
  const size_t columns = map.columns.size();
  for (size_t n = 0; n < map.weights.size(); ++n) {
    const float weight = map.weights[n];
    svg.put(R"(<rect class="hint" x="{}" y="{}" width="{}" height="{}"><title>{} ← {}  {}</title>)"
            "</rect>",
            n % columns * kMapCell, n / columns * kMapCell, kMapCell, kMapCell,
            escape(visible(map.rows[n / columns])), escape(visible(map.columns[n % columns])),
            std::isnan(weight) ? "NaN" : fmt::format("{:.3f}", weight));
  }
}

void put_legend(Markup& svg, const Sheet::Placed& at) {
  const Scale scale = at.map().scale;
  const std::string low = low_end(at.map());
  const double y = at.height - kMapLine, step = kLegend / shades_of(scale);
  const double begin = at.grid.left + kMapGap + kMapLetter * drawn_columns_of(low);
  svg.put(R"(<text class="muted" x="{:g}" y="{:g}">{}</text>)", at.grid.left, y + 14, low);
  for (int k = 0; k < shades_of(scale); ++k) {
    svg.put(R"(<rect class="{}{}" x="{:g}" y="{:g}" width="{:g}" height="12" fill="{}"/>)",
            shade_letter(scale), k, begin + step * k, y + 3, step,
            hex(shade(k, Background::white, scale)));
  }
  svg.put(R"(<text class="muted" x="{:g}" y="{:g}">{}</text>)", begin + kMapGap + kLegend, y + 14,
          number(full_weight(at.map())));
}

void put_map(Markup& svg, const Sheet::Placed& at, Target target) {
  svg.put(R"x(<g transform="translate({:g} {:g})" role="img" aria-label="{}">)x", at.x, at.y,
          escape(at.title.empty() ? "Attention weights" : at.title));
  if (!at.title.empty()) {
    svg.put(R"(<text class="title" x="0" y="14">{}</text>)", escape(at.title));
  }
  if (at.map().weights.empty()) {
    svg.put(R"(<text class="muted" x="0" y="{:g}">(nothing)</text>)", at.grid.top + 14);
  } else {
    put_labels(svg, at.grid);
    svg.put(R"x(<g transform="translate({:g} {:g})">)x", at.grid.left, at.grid.top);
    put_cells(svg, at);
    if (target == Target::svg) put_hints(svg, at.map());
    svg.put("</g>");
    put_legend(svg, at);
  }
  svg.put("</g>\n");
}

}  // namespace

Sheet sheet_of(std::span<const Picture> maps) {
  Sheet sheet;
  double total = 0;
  for (const Picture& map : maps) {
    sheet.maps.push_back(placed(map));
    total += sheet.maps.back().height + kMapMargin;
  }
  // Columns of about the same length.
  const double column = total / std::max(std::ceil(total / kTallest), 1.0);
  double x = kMapMargin, y = kMapMargin, widest = 0;
  for (Sheet::Placed& map : sheet.maps) {
    if (y > kMapMargin && y + map.height > column + kMapMargin) {
      x += widest + 2 * kMapMargin, y = kMapMargin, widest = 0;
    }
    map.x = x, map.y = y;
    y += map.height + kMapMargin;
    widest = std::max(widest, map.width);
    sheet.width = std::max(sheet.width, x + map.width + kMapMargin);
    sheet.height = std::max(sheet.height, y);
  }
  return sheet;
}

Drawing drawing_of(const Sheet& sheet, Target target) {
  Markup body;
  for (const Sheet::Placed& map : sheet.maps) put_map(body, map, target);
  return svg_file(sheet.width, sheet.height, style(), body.text());
}

}  // namespace fovea::report
