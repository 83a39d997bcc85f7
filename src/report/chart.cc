#include <algorithm>
#include <cmath>

#include "report/label.h"
#include "report/page.h"
#include "report/plot.h"

// Lines over a common axis, as a part of a page.
namespace fovea::report {
namespace {

using Json = nlohmann::ordered_json;
using Point = std::pair<double, double>;

std::string spoken(const Chart& chart) {
  std::string text = fmt::format("Line chart: {} over {}.", chart.y, chart.x);
  for (const Curve& curve : chart.curves) {
    if (curve.points.empty()) continue;
    text += fmt::format(" {}: from {} to {}.", curve.name, number(curve.points.front().second),
                        number(curve.points.back().second));
  }
  return text;
}

double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double unit = std::pow(10.0, 5 - std::ceil(std::log10(std::abs(value))));
  return std::isfinite(unit) && unit > 0 ? std::round(value * unit) / unit : value;
}

// For the script, which shows them under the pointer.
Json figures_of(const Plot& plot) {
  Json curves = Json::array();
  for (size_t i = 0; i < plot.lines.size(); ++i) {
    const Thinned& line = plot.lines[i];
    Json points = Json::array();
    for (const Point& p : line.means.empty() ? line.points : line.means) {
      if (!std::isfinite(p.first)) continue;
      const Json y = plot.draws(p) ? Json(rounded(p.second)) : Json();
      points.push_back(Json::array({rounded(p.first), y}));
    }
    curves.push_back({{"name", plot.names[i]}, {"points", std::move(points)}});
  }
  return {{"x", plot.x}, {"curves", std::move(curves)}};
}

}  // namespace

void add_legend(Html& html, const std::string& measure, const std::vector<std::string>& series) {
  html.put(R"(<div class="legend{}"><span class="axis">{}</span>)",
           series.size() > 5 ? " many" : "", escape(measure));
  for (size_t i = 0; i < series.size() && (series.size() > 1 || !series[i].empty()); ++i) {
    html.put(R"(<span class="key"><svg aria-hidden="true" width="18" height="10"><path )"
             R"(class="line {}" d="M0 5h18"/></svg>{}</span>)",
             series_class(i), escape(series[i]));
  }
  html.put("</div>");
}

void add(Html& html, const Chart& chart) {
  const Plot plot = plot_of(chart);
  html.put(R"(<figure class="chart">)");
  add_legend(html, chart.y, plot.names);
  if (plot.xs.empty()) {
    html.put(R"(<p class="none">nothing to draw</p></figure>)");
    return;
  }
  const size_t index = html.keep(figures_of(plot));
  for (const Width& width : kWidths) {
    const Frame at = frame_of(plot, width.pixels);
    html.put(R"(<svg class="lines {}" viewBox="0 0 {} {}" role="img" tabindex="0" data-i="{}" )"
             R"(data-frame="{:.2f} {:.2f} {:.2f} {:.2f} {} {}" aria-label="{}">)",
             width.name, width.pixels, at.bottom(), index, at.left, at.top, at.width, at.height,
             at.x.low, at.x.high, escape(spoken(chart)));
    put_axes(html, at, plot);
    put_lines(html, at, plot);
    html.put(R"(<path class="cross" d=""/></svg>)");
  }
  size_t stretch = 1;
  for (const Thinned& line : plot.lines) stretch = std::max(stretch, line.stretch);
  if (stretch > 1) html.put(R"(<p class="note">lines: means of {} points; pale: all</p>)", stretch);
  html.put(R"(<div class="tip" hidden="hidden"></div></figure>)");
}

}  // namespace fovea::report
