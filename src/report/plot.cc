#include "report/plot.h"

#include <algorithm>

#include "report/label.h"

namespace fovea::report {
namespace {

using Point = std::pair<double, double>;
constexpr size_t kStretches = 300, kDotted = 40;
constexpr double kAbove = 10, kBelow = 42;  // the plot: ticks, the axis' name

Axis y_axis(Reach range, bool log, int about) {
  if (log) return log_axis(range.low, range.high, about);
  if (range.low > 0 && range.low < 0.5 * range.high) range.low = 0;
  return linear_axis(range.low, range.high, about, Ends::round);
}

// A point that stands alone is a stroke of no length, which round ends make a dot.
std::string path_of(const Frame& at, const Plot& plot, const Points& points) {
  std::string path;
  bool pen_down = false;
  for (const Point& p : points) {
    const bool on = plot.draws(p);
    if (on) {
      path += fmt::format("{}{:.1f} {:.1f}{}", pen_down ? "L" : "M", at.across(p.first),
                          at.down(p.second), pen_down ? "" : "h0");
    }
    pen_down = on;
  }
  return path;
}

void put_line(Markup& out, const Frame& at, const Plot& plot, size_t series) {
  const Thinned& line = plot.lines[series];
  const std::string name = series_class(series);
  const bool many = !line.means.empty();
  if (many) out.put(R"(<path class="line pale {}" d="{}"/>)", name, path_of(at, plot, line.points));
  out.put(R"(<path class="line {}" d="{}"/>)", name,
          path_of(at, plot, many ? line.means : line.points));
  if (line.points.size() > kDotted) return;
  for (const Point& p : line.points) {
    if (!plot.draws(p)) continue;
    out.put(R"(<circle class="dot {}" cx="{:.1f}" cy="{:.1f}" r="3"/>)", name, at.across(p.first),
            at.down(p.second));
  }
}

}  // namespace

void Reach::take(double value) {
  low = std::min(low, value), high = std::max(high, value);
  whole = whole && value == std::round(value);
}

bool Plot::draws(const Point& p) const {
  return std::isfinite(p.first) && std::isfinite(p.second) && (!log_y || p.second > 0);
}

double Frame::bottom() const { return top + height + kBelow; }

Plot plot_of(const Chart& chart) {
  Plot plot{.x = chart.x, .y = chart.y, .log_y = chart.log_y};
  for (const Curve& curve : chart.curves) {
    plot.names.push_back(curve.name);
    plot.lines.push_back(thinned(curve.points));
    for (const Point& p : plot.lines.back().points) {
      if (plot.draws(p)) plot.xs.take(p.first), plot.ys.take(p.second);
    }
  }
  return plot;
}

Frame frame_of(const Plot& plot, double pixels) {
  const bool wide = pixels > 500;
  const double height = wide ? 300 : 230;
  const Axis y = y_axis(plot.ys, plot.log_y, wide ? 6 : 5);
  int longest = 0;
  for (const double tick : y.ticks) longest = std::max(longest, columns_of(y.label(tick)));
  const double left = 7.2 * longest + 10;
  const Steps steps = plot.xs.whole ? Steps::whole : Steps::any;
  const Axis x = linear_axis(plot.xs.low, plot.xs.high, wide ? 8 : 4, Ends::tight, steps);
  return {left, kAbove, pixels - left - 14, height - kAbove - kBelow, x, y};
}

void put_axes(Markup& out, const Frame& at, const Plot& plot) {
  for (const double tick : at.y.ticks) {
    out.put(R"(<path class="grid" d="M{:.1f} {:.1f}h{:.1f}"/>)", at.left, at.down(tick), at.width);
    out.put(R"(<text class="tick end" x="{:.1f}" y="{:.1f}">{}</text>)", at.left - 8,
            at.down(tick) + 4, at.y.label(tick));
  }
  const double bottom = at.top + at.height;
  out.put(R"(<path class="base" d="M{:.1f} {:.1f}h{:.1f}"/>)", at.left, bottom, at.width);
  for (const double tick : at.x.ticks) {
    out.put(R"(<path class="base" d="M{:.1f} {:.1f}v5"/>)", at.across(tick), bottom);
    out.put(R"(<text class="tick mid" x="{:.1f}" y="{:.1f}">{}</text>)", at.across(tick),
            bottom + 18, at.x.label(tick));
  }
  out.put(R"(<text class="axis end" x="{:.1f}" y="{:.1f}">{}</text>)", at.left + at.width,
          bottom + 37, escape(plot.x));
}

void put_lines(Markup& out, const Frame& at, const Plot& plot) {
  for (size_t i = 0; i < plot.lines.size(); ++i) put_line(out, at, plot, i);
}

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

}  // namespace fovea::report
