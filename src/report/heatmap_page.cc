#include <algorithm>
#include <cmath>

#include "report/drawing.h"
#include "report/label.h"
#include "report/page.h"

// Heat-maps on a page: one path for each shade; the script reads the weights from the figures.
namespace fovea::report {
namespace {

constexpr double kNarrowest = 280;  // of a figure, for its caption

MapGrid page_grid(const Heatmap& map) {
  const auto columns = static_cast<double>(map.columns.size());
  const double cell = std::clamp(620 / std::max(columns, 1.0), 14.0, 24.0);
  return grid_of(
      map, {.cell = cell, .gap = 7, .letter = 8, .line = 16, .drop = 4.5, .longest_label = 24});
}

// In units of a cell. Weights too small for the first shade stay the ground's colour.
void add_cells(Html& html, const Heatmap& map, const MapGrid& grid) {
  const Cells cells = cells_of(map, 1, 1);
  html.put(R"x(<g transform="translate({:.1f} {:.1f}) scale({:.2f})"><path class="ground" )x"
           R"(d="M0 0h{}v{}H0z"/>)",
           grid.left, grid.top, grid.style.cell, map.columns.size(), map.rows.size());
  for (size_t k = map.scale == Scale::from_zero ? 1 : 0; k < cells.shaded.size(); ++k) {
    if (cells.shaded[k].empty()) continue;
    html.put(R"(<path class="{}{}" d="{}"/>)", shade_letter(map.scale), k, cells.shaded[k]);
  }
  if (!cells.unknown.empty()) html.put(R"(<path class="unknown" d="{}"/>)", cells.unknown);
  html.put(R"(<path class="mesh" d=")");
  for (size_t j = 0; j <= map.columns.size(); ++j) html.put("M{} 0v{}", j, map.rows.size());
  for (size_t i = 0; i <= map.rows.size(); ++i) html.put("M0 {}h{}", i, map.columns.size());
  html.put(R"("/></g>)");
}

nlohmann::ordered_json figures_of(const Heatmap& map) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array(), columns = rows, weights = rows;
  for (const std::string& row : map.rows) rows.push_back(visible(row));
  for (const std::string& column : map.columns) columns.push_back(visible(column));
  for (const float weight : map.weights) {  // NaN is written as null
    weights.push_back(std::round(static_cast<double>(weight) * 1e4) / 1e4);
  }
  return {{"rows", rows}, {"columns", columns}, {"weights", weights}};
}

double width_of(const MapGrid& grid) { return grid.right + 2; }

void add_map(Html& html, const Heatmap& map, const MapGrid& grid) {
  html.put(
      R"(<div class="scroll"><svg class="map" viewBox="0 0 {0:.1f} {1:.1f}" )"
      R"(style="width:{0:.0f}px;min-width:{2:.0f}px" role="img" tabindex="0" )"
      R"(data-i="{3}" data-frame="{4:.1f} {5:.1f} {6:.2f}" aria-label="Weights, {7} × {8}: {9}">)",
      width_of(grid), grid.lowest() + 2, std::min(0.7 * width_of(grid), 700.0),
      html.keep(figures_of(map)), grid.left, grid.top, grid.style.cell, map.rows.size(),
      map.columns.size(), escape(map.title));
  put_labels(html, grid);
  add_cells(html, map, grid);
  html.put(R"(<path class="band" d=""/><path class="aim" d=""/></svg></div>)");
  html.put(R"(<div class="under"><span class="say" aria-live="polite"></span>)"
           R"(<span class="scale">{}<i{} aria-hidden="true"></i>{}</span></div>)",
           low_end(map), map.scale == Scale::from_zero ? "" : R"( class="signed")",
           number(full_weight(map)));
}

}  // namespace

std::string heat_colours() {
  const auto rules = [](Background background) {
    const auto ramp = [&](Scale scale) {
      std::string colours;
      for (int k = 0; k < shades_of(scale); ++k) {
        if (k % 5 != 0 && k != shades_of(scale) - 1) continue;
        colours += fmt::format(",{}", hex(shade(k, background, scale)));
      }
      return colours;
    };
    return fmt::format(
        "{}.ground{{fill:{}}}.scale i{{background:linear-gradient(90deg{})}}"
        ".scale i.signed{{background:linear-gradient(90deg{})}}",
        shade_rules(background), hex(shade(0, background)), ramp(Scale::from_zero),
        ramp(Scale::around_zero));
  };
  return rules(Background::white) + "@media screen and (prefers-color-scheme:dark){" +
         rules(Background::black) + "}";
}

void add_maps(Html& html, std::span<const Picture> maps) {
  html.put(R"(<div class="gallery">)");
  for (const Picture& picture : maps) {
    const auto& map = picture.get<Heatmap>();
    const MapGrid grid = page_grid(map);
    html.put(
        R"(<figure class="heat" style="width:{:.0f}px"><figcaption dir="auto">{}</figcaption>)",
        std::max(width_of(grid), kNarrowest), escape(map.title));
    if (map.weights.empty()) {
      html.put(R"(<p class="none">nothing to draw</p>)");
    } else {
      add_map(html, map, grid);
    }
    html.put("</figure>");
  }
  html.put("</div>");
}

}  // namespace fovea::report
