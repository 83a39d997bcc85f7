#include <algorithm>
#include <cmath>

#include "report/axis.h"
#include "report/label.h"
#include "report/page.h"

// Lines over a common axis.
namespace fovea::report {
namespace {

using Json = nlohmann::ordered_json;
using Point = std::pair<double, double>;
constexpr size_t kStretches = 300, kDotted = 40;
constexpr double kAbove = 10, kBelow = 42;  // the plot: ticks, the axis' name

struct Range {
  double low = INFINITY, high = -INFINITY;
  bool whole = true;
  void take(double value) {
    low = std::min(low, value), high = std::max(high, value);
    whole = whole && value == std::round(value);
  }
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
  for (const double tick : y.ticks) longest = std::max(longest, columns_of(y.label(tick)));
  const double left = 7.2 * longest + 10;
  const Steps steps = xs.whole ? Steps::whole : Steps::any;
  const Axis x = linear_axis(xs.low, xs.high, wide ? 8 : 4, Ends::tight, steps);
  return {left, kAbove, width.pixels - left - 14, height - kAbove - kBelow, x, y};
}

void add_axes(Html& html, const Frame& at, const std::string& x_name) {
  for (const double tick : at.y.ticks) {
    html.put(R"(<path class="grid" d="M{:.1f} {:.1f}h{:.1f}"/>)", at.left, at.down(tick), at.width);
    html.put(R"(<text class="tick end" x="{:.1f}" y="{:.1f}">{}</text>)", at.left - 8,
             at.down(tick) + 4, at.y.label(tick));
  }
  const double bottom = at.top + at.height;
  html.put(R"(<path class="base" d="M{:.1f} {:.1f}h{:.1f}"/>)", at.left, bottom, at.width);
  for (const double tick : at.x.ticks) {
    html.put(R"(<path class="base" d="M{:.1f} {:.1f}v5"/>)", at.across(tick), bottom);
    html.put(R"(<text class="tick mid" x="{:.1f}" y="{:.1f}">{}</text>)", at.across(tick),
             bottom + 18, at.x.label(tick));
  }
  html.put(R"(<text class="axis end" x="{:.1f}" y="{:.1f}">{}</text>)", at.left + at.width,
           bottom + 37, escape(x_name));
}

// A point that stands alone is a stroke of no length, which round ends make a dot.
std::string path_of(const Frame& at, const Points& points) {
  std::string path;
  bool pen_down = false;
  for (const Point& p : points) {
    const bool on = drawn(p, at.y.log);
    if (on) {
      path += fmt::format("{}{:.1f} {:.1f}{}", pen_down ? "L" : "M", at.across(p.first),
                          at.down(p.second), pen_down ? "" : "h0");
    }
    pen_down = on;
  }
  return path;
}

void add_line(Html& html, const Frame& at, const Thinned& line, size_t series) {
  const std::string name = series_class(series);
  const bool many = !line.means.empty();
  if (many) html.put(R"(<path class="line pale {}" d="{}"/>)", name, path_of(at, line.points));
  html.put(R"(<path class="line {}" d="{}"/>)", name, path_of(at, many ? line.means : line.points));
  if (line.points.size() > kDotted) return;
  for (const Point& p : line.points) {
    if (!drawn(p, at.y.log)) continue;
    html.put(R"(<circle class="dot {}" cx="{:.1f}" cy="{:.1f}" r="3"/>)", name, at.across(p.first),
             at.down(p.second));
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

Thinned thinned(const Points& points) {
  if (points.size() <= 2 * kStretches) return {points, {}, 1};
  Thinned few;
  few.stretch = (points.size() + kStretches - 1) / kStretches;
  for (size_t from = 0; from < points.size(); from += few.stretch) {
    const size_t to = std::min(from + few.stretch, points.size());
    size_t low = from, high = from, finite = 0;
    Point mean{0, 0};
    for (size_t i = from; i < to; ++i) {
      if (!std::isfinite(points[i].second)) continue;
      if (finite++ == 0) low = high = i;
      if (points[i].second < points[low].second) low = i;
      if (points[i].second > points[high].second) high = i;
      mean.first += points[i].first, mean.second += points[i].second;
    }
    few.points.push_back(points[std::min(low, high)]);
    if (low != high) few.points.push_back(points[std::max(low, high)]);
    const auto n = static_cast<double>(finite);
    few.means.push_back(finite == 0 ? points[from] : Point{mean.first / n, mean.second / n});
  }
  return few;
}

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
  Range xs, ys;
  std::vector<Thinned> lines;
  std::vector<std::string> names;
  size_t stretch = 1;
  Json curves = Json::array();
  for (const Curve& curve : chart.curves) {
    const Thinned line = thinned(curve.points);
    Json points = Json::array();
    for (const Point& p : line.means.empty() ? line.points : line.means) {
      if (!std::isfinite(p.first)) continue;
      const Json y = drawn(p, chart.log_y) ? Json(rounded(p.second)) : Json();
      points.push_back(Json::array({rounded(p.first), y}));
    }
    for (const Point& p : line.points) {
      if (drawn(p, chart.log_y)) xs.take(p.first), ys.take(p.second);
    }
    curves.push_back({{"name", curve.name}, {"points", std::move(points)}});
    names.push_back(curve.name);
    stretch = std::max(stretch, line.stretch);
    lines.push_back(line);
  }
  html.put(R"(<figure class="chart">)");
  add_legend(html, chart.y, names);
  if (xs.empty()) {
    html.put(R"(<p class="none">nothing to draw</p></figure>)");
    return;
  }
  const size_t index = html.keep({{"x", chart.x}, {"curves", std::move(curves)}});
  for (const Width& width : kWidths) {
    const Frame at = frame_of(width, xs, ys, chart.log_y);
    html.put(R"(<svg class="lines {}" viewBox="0 0 {} {}" role="img" tabindex="0" data-i="{}" )"
             R"(data-frame="{:.2f} {:.2f} {:.2f} {:.2f} {} {}" aria-label="{}">)",
             width.name, width.pixels, at.top + at.height + kBelow, index, at.left, at.top,
             at.width, at.height, at.x.low, at.x.high, escape(spoken(chart)));
    add_axes(html, at, chart.x);
    for (size_t i = 0; i < lines.size(); ++i) add_line(html, at, lines[i], i);
    html.put(R"(<path class="cross" d=""/></svg>)");
  }
  if (stretch > 1) html.put(R"(<p class="note">lines: means of {} points; pale: all</p>)", stretch);
  html.put(R"(<div class="tip" hidden="hidden"></div></figure>)");
}

}  // namespace fovea::report
