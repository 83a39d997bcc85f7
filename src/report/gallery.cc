#include <algorithm>
#include <array>
#include <cmath>

#include "report/label.h"
#include "report/page.h"
#include "report/picture.h"

// Heat-maps on a page: one path for each shade; the script reads the weights from the figures.
namespace fovea::report {
namespace {

constexpr double kLetter = 8, kGap = 7;
constexpr double kNarrowest = 280;  // of a figure, for its caption

struct Layout {
  Labels labels;
  double cell, left, top, width, height;
};

Layout layout_of(const Heatmap& map) {
  Layout at{labels_of(map, 24), 24, 0, 0, 0, 0};
  const auto columns = static_cast<double>(map.columns.size());
  const auto rows = static_cast<double>(map.rows.size());
  at.cell = std::clamp(620 / std::max(columns, 1.0), 14.0, 24.0);
  at.left = std::ceil(kLetter * at.labels.row_width) + kGap;
  at.top = (at.labels.turned ? std::ceil(kLetter * at.labels.column_width) : 16) + kGap;
  at.width = at.left + at.cell * columns + 2;
  at.height = at.top + at.cell * rows + 2;
  return at;
}

void add_labels(Html& html, const Layout& at) {
  html.put(R"(<g class="cols">)");
  for (size_t j = 0; j < at.labels.columns.size(); ++j) {
    const double x = at.left + at.cell * (static_cast<double>(j) + 0.5);
    const std::string label = escape(at.labels.columns[j]);
    if (at.labels.turned) {
      html.put(R"x(<text transform="translate({:.1f} {:.1f}) rotate(-90)">{}</text>)x", x + 4.5,
               at.top - kGap, label);
    } else {
      html.put(R"(<text class="mid" x="{:.1f}" y="{:.1f}">{}</text>)", x, at.top - kGap, label);
    }
  }
  html.put(R"(</g><g class="rows">)");
  for (size_t i = 0; i < at.labels.rows.size(); ++i) {
    html.put(R"(<text class="end" x="{:.1f}" y="{:.1f}">{}</text>)", at.left - kGap,
             at.top + at.cell * (static_cast<double>(i) + 0.5) + 4.5, escape(at.labels.rows[i]));
  }
  html.put("</g>");
}

// In units of a cell. Weights too small for the first shade stay the ground's colour.
void add_cells(Html& html, const Heatmap& map, const Layout& at) {
  std::array<std::string, kHeatSteps> shades;
  std::string unknown;
  const double full = full_weight(map);
  const size_t columns = map.columns.size();
  for (size_t n = 0; n < map.weights.size(); ++n) {
    const double share = map.weights[n] / full;
    const bool nan = std::isnan(share);
    const int step =
        nan ? 1 : static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * (kHeatSteps - 1)));
    if (step == 0) continue;
    (nan ? unknown : shades[static_cast<size_t>(step)]) +=
        fmt::format("M{} {}h1v1h-1z", n % columns, n / columns);
  }
  html.put(R"x(<g transform="translate({:.1f} {:.1f}) scale({:.2f})"><path class="ground" )x"
           R"(d="M0 0h{}v{}H0z"/>)",
           at.left, at.top, at.cell, columns, map.rows.size());
  for (size_t k = 0; k < shades.size(); ++k) {
    if (!shades[k].empty()) html.put(R"(<path class="k{}" d="{}"/>)", k, shades[k]);
  }
  if (!unknown.empty()) html.put(R"(<path class="unknown" d="{}"/>)", unknown);
  html.put(R"(<path class="mesh" d=")");
  for (size_t j = 0; j <= columns; ++j) html.put("M{} 0v{}", j, map.rows.size());
  for (size_t i = 0; i <= map.rows.size(); ++i) html.put("M0 {}h{}", i, columns);
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

void add_map(Html& html, const Heatmap& map, const Layout& at, const std::string& name) {
  html.put(
      R"(<div class="scroll"><svg class="map" viewBox="0 0 {0:.1f} {1:.1f}" )"
      R"(style="width:{0:.0f}px;min-width:{2:.0f}px" role="img" tabindex="0" )"
      R"(data-i="{3}" data-frame="{4:.1f} {5:.1f} {6:.2f}" aria-label="Weights, {7} × {8}: {9}">)",
      at.width, at.height, std::min(0.7 * at.width, 700.0), html.keep(figures_of(map)), at.left,
      at.top, at.cell, map.rows.size(), map.columns.size(), escape(name));
  add_labels(html, at);
  add_cells(html, map, at);
  html.put(R"(<path class="band" d=""/><path class="aim" d=""/></svg></div>)");
  html.put(R"(<div class="under"><span class="say" aria-live="polite"></span>)"
           R"(<span class="scale">0<i aria-hidden="true"></i>{}</span></div>)",
           number(full_weight(map)));
}

}  // namespace

std::string heat_colours() {
  const auto rules = [](Paper paper) {
    std::string css, ramp;
    for (int k = 0; k < kHeatSteps; ++k) {
      const std::string colour = hex(colour_of(static_cast<double>(k) / (kHeatSteps - 1), paper));
      css += fmt::format(".k{}{{fill:{}}}", k, colour);
      if (k % 6 == 0 || k == kHeatSteps - 1) ramp += "," + colour;
    }
    css += fmt::format(".ground{{fill:{}}}", hex(colour_of(0, paper)));
    return css + fmt::format(".scale i{{background:linear-gradient(90deg{})}}", ramp);
  };
  return rules(Paper::white) + "@media screen and (prefers-color-scheme:dark){" +
         rules(Paper::black) + "}";
}

void add(Html& html, const Gallery& gallery) {
  html.put(R"(<div class="gallery">)");
  for (const Gallery::Item& item : gallery.items) {
    check(item.map);
    const std::string& caption = item.caption.empty() ? item.map.title : item.caption;
    const Layout at = layout_of(item.map);
    html.put(
        R"(<figure class="heat" style="width:{:.0f}px"><figcaption dir="auto">{}</figcaption>)",
        std::max(at.width, kNarrowest), escape(caption));
    if (item.map.weights.empty()) {
      html.put(R"(<p class="none">nothing to draw</p>)");
    } else {
      add_map(html, item.map, at, caption);
    }
    html.put("</figure>");
  }
  html.put("</div>");
}

}  // namespace fovea::report
