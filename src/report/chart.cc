#include <algorithm>
#include <cmath>

#include "report/axis.h"
#include "report/label.h"
#include "report/page.h"

// Lines over a common axis.
namespace fovea::report {
namespace {

using Point = std::pair<double, double>;
constexpr size_t kStretches = 300;

struct Range {
  double low = INFINITY, high = -INFINITY;
  void take(double value) { low = std::min(low, value), high = std::max(high, value); }
  bool empty() const { return !(low <= high); }
};

bool drawn(const Point& p, bool log_y) {
  return std::isfinite(p.first) && std::isfinite(p.second) && (!log_y || p.second > 0);
}

struct Frame {
  double left, top, width, height;
  Axis x, y;
  double across(double value) const { return left + width * x.place(value); }
  double down(double value) const { return top + height * (1 - y.place(value)); }
};

Axis y_axis(Range range, bool log, int about) {
  if (log) return log_axis(range.low, range.high, about);
  if (range.low > 0 && range.low < 0.5 * range.high) range.low = 0;
  return linear_axis(range.low, range.high, about, Ends::round);
}

Frame frame_of(const Width& width, const Range& xs, const Range& ys, bool log) {
  const bool wide = width.pixels > 500;
  const double height = wide ? 300 : 230;
  const Axis y = y_axis(ys, log, wide ? 6 : 5);
  int longest = 0;
  for (const double tick : y.ticks) longest = std::max(longest, columns_of(tick_label(tick)));
  const double left = 7.2 * longest + 10;
  return {left,
          10,
          width.pixels - left - 14,
          height - 10 - 42,
          linear_axis(xs.low, xs.high, wide ? 8 : 4, Ends::tight),
          y};
}

void add_axes(Html& html, const Frame& at, const std::string& x_name) {
  for (const double tick : at.y.ticks) {
    html.put(R"(<path class="grid" d="M{:.1f} {:.1f}h{:.1f}"/>)", at.left, at.down(tick), at.width);
    html.put(R"(<text class="tick end" x="{:.1f}" y="{:.1f}">{}</text>)", at.left - 8,
             at.down(tick) + 4, tick_label(tick));
  }
  const double bottom = at.top + at.height;
  html.put(R"(<path class="base" d="M{:.1f} {:.1f}h{:.1f}"/>)", at.left, bottom, at.width);
  for (const double tick : at.x.ticks) {
    html.put(R"(<path class="base" d="M{:.1f} {:.1f}v5"/>)", at.across(tick), bottom);
    html.put(R"(<text class="tick mid" x="{:.1f}" y="{:.1f}">{}</text>)", at.across(tick),
             bottom + 18, tick_label(tick));
  }
  html.put(R"(<text class="axis end" x="{:.1f}" y="{:.1f}">{}</text>)", at.left + at.width,
           bottom + 37, escape(x_name));
}

void add_line(Html& html, const Frame& at, const std::vector<Point>& points, size_t series) {
  html.put(R"(<path class="line {}" d=")", series_class(series));
  bool pen_down = false;
  size_t last_run = 0;
  for (const Point& p : points) {
    if (!drawn(p, at.y.log)) {
      pen_down = false;
      continue;
    }
    last_run = pen_down ? last_run + 1 : 1;
    html.put("{}{:.1f} {:.1f}", pen_down ? "L" : "M", at.across(p.first), at.down(p.second));
    pen_down = true;
  }
  html.put("\"/>");
  if (points.size() > 40 && last_run != 1) return;
  for (const Point& p : points) {
    if (!drawn(p, at.y.log)) continue;
    html.put(R"(<circle class="dot {}" cx="{:.1f}" cy="{:.1f}" r="2.5"/>)", series_class(series),
             at.across(p.first), at.down(p.second));
  }
}

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

}  // namespace

std::vector<Point> thinned(const std::vector<Point>& points) {
  if (points.size() <= 2 * kStretches + 2) return points;
  std::vector<Point> kept = {points.front()};
  const size_t inner = points.size() - 2;
  for (size_t s = 0; s < kStretches; ++s) {
    const auto from = points.begin() + static_cast<std::ptrdiff_t>(1 + s * inner / kStretches);
    const auto to = points.begin() + static_cast<std::ptrdiff_t>(1 + (s + 1) * inner / kStretches);
    const auto gap =
        std::find_if(from, to, [](const Point& p) { return !std::isfinite(p.second); });
    auto [low, high] =
        std::minmax_element(from, gap == to ? to : gap,
                            [](const Point& a, const Point& b) { return a.second < b.second; });
    if (gap != to) {
      kept.push_back(*gap);
    } else {
      kept.push_back(*std::min(low, high));
      if (low != high) kept.push_back(*std::max(low, high));
    }
  }
  kept.push_back(points.back());
  return kept;
}

void add_legend(Html& html, const std::string& measure, const std::vector<std::string>& series) {
  html.put(R"(<div class="legend"><span class="axis">{}</span>)", escape(measure));
  for (size_t i = 0; i < series.size() && (series.size() > 1 || !series[i].empty()); ++i) {
    html.put(R"(<span class="key"><svg aria-hidden="true" width="18" height="10"><path )"
             R"(class="line {}" d="M0 5h18"/></svg>{}</span>)",
             series_class(i), escape(series[i]));
  }
  html.put("</div>");
}

void add(Html& html, const Chart& chart) {
  Range xs, ys;
  std::vector<std::vector<Point>> lines;
  std::vector<std::string> names;
  nlohmann::ordered_json figures = {
      {"x", chart.x}, {"log", chart.log_y}, {"curves", nlohmann::ordered_json::array()}};
  for (const Curve& curve : chart.curves) {
    names.push_back(curve.name);
    lines.push_back(thinned(curve.points));
    nlohmann::ordered_json points = nlohmann::ordered_json::array();
    for (const Point& p : lines.back()) {
      if (!drawn(p, chart.log_y)) continue;
      xs.take(p.first), ys.take(p.second);
      points.push_back({rounded(p.first), rounded(p.second)});
    }
    figures["curves"].push_back({{"name", curve.name}, {"points", points}});
  }
  html.put(R"(<figure class="chart">)");
  add_legend(html, chart.y, names);
  if (xs.empty()) {
    html.put(R"(<p class="none">nothing to draw</p></figure>)");
    return;
  }
  const size_t index = html.keep(std::move(figures));
  for (const Width& width : kWidths) {
    const Frame at = frame_of(width, xs, ys, chart.log_y);
    html.put(R"(<svg class="lines {}" viewBox="0 0 {} {}" role="img" tabindex="0" data-i="{}" )"
             R"(data-frame="{:.2f} {:.2f} {:.2f} {:.2f} {} {} {} {}" aria-label="{}">)",
             width.name, width.pixels, at.top + at.height + 42, index, at.left, at.top, at.width,
             at.height, at.x.low, at.x.high, at.y.low, at.y.high, escape(spoken(chart)));
    add_axes(html, at, chart.x);
    for (size_t i = 0; i < lines.size(); ++i) add_line(html, at, lines[i], i);
    html.put(R"(<path class="cross" d=""/></svg>)");
  }
  html.put(R"(<div class="tip" hidden="hidden"></div></figure>)");
}

}  // namespace fovea::report
