#include <algorithm>
#include <cmath>

#include "fovea/error.h"
#include "report/axis.h"
#include "report/label.h"
#include "report/page.h"

// Groups of bars: upright where the groups and the figures above the bars have room side by side,
// lying down elsewhere.
namespace fovea::report {
namespace {

constexpr double kBarLetter = 7.2, kBarLine = 18;

struct Extent {
  double low = 0, high = 0;
  int decimals = 0;
  int longest = 1;  // characters of a figure
};

// All figures of a chart with as many decimals as the one that needs most.
std::string figure(double value, const Extent& extent) {
  if (std::abs(value) >= 1e6) return number(value);
  const std::string text = fmt::format("{:.{}f}", std::abs(value), extent.decimals);
  return value < 0 ? "−" + text : text;
}

int decimals_of(double value) {
  const std::string text = number(value);
  const size_t point = text.find('.');
  if (point == std::string::npos || text.find('e') != std::string::npos) return 0;
  return static_cast<int>(text.size() - point - 1);
}

Extent extent_of(const Bars& bars) {
  Extent extent;
  for (const std::vector<double>& series : bars.values) {
    for (const double value : series) {
      if (!std::isfinite(value)) continue;
      extent.low = std::min(extent.low, value), extent.high = std::max(extent.high, value);
      extent.decimals = std::max(extent.decimals, decimals_of(value));
    }
  }
  for (const double end : {extent.low, extent.high}) {
    extent.longest = std::max(extent.longest, columns_of(figure(end, extent)));
  }
  if (extent.low == extent.high) extent.high = 1;
  return extent;
}

void check(const Bars& bars) {
  bool whole = bars.values.size() == bars.series.size();
  for (const auto& series : bars.values) whole = whole && series.size() == bars.groups.size();
  if (whole) return;
  throw Error("to_html", fmt::format("bars: {} lists of values, expected one of {} for each of {} "
                                     "series",
                                     bars.values.size(), bars.groups.size(), bars.series.size()));
}

std::string hint(const Bars& bars, size_t series, size_t group) {
  return fmt::format("<title>{}, {}: {}</title>", escape(bars.groups[group]),
                     escape(bars.series[series]), number(bars.values[series][group]));
}

double bar_width(const Bars& bars, double room) {
  const auto groups = static_cast<double>(bars.groups.size());
  const auto series = static_cast<double>(bars.series.size());
  return std::min(64.0, room / groups * 0.8 / series);
}

bool stand_upright(const Bars& bars, const Extent& extent, double room) {
  int longest = 0;
  for (const std::string& group : bars.groups) longest = std::max(longest, columns_of(group));
  const double each = room / static_cast<double>(bars.groups.size());
  return bar_width(bars, room) >= kBarLetter * extent.longest && each >= kBarLetter * longest + 6;
}

void add_upright(Html& html, const Bars& bars, const Extent& extent, double width) {
  const Axis y = linear_axis(extent.low, extent.high, 5, Ends::round);
  int longest = 0;
  for (const double tick : y.ticks) longest = std::max(longest, columns_of(y.label(tick)));
  const double left = kBarLetter * longest + 10, top = 22, height = 230, room = width - left - 8;
  const auto down = [&](double value) { return top + height * (1 - y.place(value)); };
  for (const double tick : y.ticks) {
    html.put(R"(<path class="{}" d="M{:.1f} {:.1f}h{:.1f}"/>)", tick == 0 ? "base" : "grid", left,
             down(tick), room);
    html.put(R"(<text class="tick end" x="{:.1f}" y="{:.1f}">{}</text>)", left - 8, down(tick) + 4,
             y.label(tick));
  }
  const double thick = bar_width(bars, room);
  const double each = room / static_cast<double>(bars.groups.size());
  for (size_t g = 0; g < bars.groups.size(); ++g) {
    const double middle = left + each * (static_cast<double>(g) + 0.5);
    const double first = middle - thick * static_cast<double>(bars.series.size()) / 2;
    for (size_t s = 0; s < bars.series.size(); ++s) {
      const double value = bars.values[s][g], x = first + thick * static_cast<double>(s);
      if (!std::isfinite(value)) continue;
      const double from = std::min(down(value), down(0)), to = std::max(down(value), down(0));
      html.put(R"(<rect class="bar {}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">{})"
               "</rect>",
               series_class(s), x + 1, from, thick - 2, std::max(to - from, 1.0), hint(bars, s, g));
      html.put(R"(<text class="value mid" x="{:.1f}" y="{:.1f}">{}</text>)", x + thick / 2,
               value < 0 ? to + 14 : from - 5, figure(value, extent));
    }
    html.put(R"(<text class="group mid" x="{:.1f}" y="{:.1f}">{}</text>)", middle,
             top + height + 20, escape(visible(bars.groups[g])));
  }
  html.put(R"(<text class="axis end" x="{:.1f}" y="{:.1f}">{}</text>)", left + room,
           top + height + 40, escape(bars.x));
}
constexpr double kUprightHeight = 22 + 230 + 48;

double lying_height(const Bars& bars) {
  return static_cast<double>(bars.groups.size()) *
             (kBarLine * static_cast<double>(bars.series.size() + 1) + 14) +
         kBarLine;
}

void add_lying(Html& html, const Bars& bars, const Extent& extent, double width) {
  const double side = kBarLetter * extent.longest + 8;
  const double left = extent.low < 0 ? side : 0, room = width - left - side;
  const auto across = [&](double value) {
    return left + room * (value - extent.low) / (extent.high - extent.low);
  };
  const double height = kBarLine * static_cast<double>(bars.series.size());
  double y = 0;
  for (size_t g = 0; g < bars.groups.size(); ++g) {
    const int fitting = static_cast<int>(width / kBarLetter);
    html.put(R"(<text class="group" x="0" y="{:.1f}">{}</text>)", y + 14,
             escape(cut(visible(bars.groups[g]), fitting)));
    y += kBarLine;
    for (size_t s = 0; s < bars.series.size(); ++s, y += kBarLine) {
      const double value = bars.values[s][g];
      if (!std::isfinite(value)) continue;
      const double from = std::min(across(value), across(0)),
                   to = std::max(across(value), across(0));
      html.put(R"(<rect class="bar {}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">{})"
               "</rect>",
               series_class(s), from, y + 2, std::max(to - from, 1.0), kBarLine - 3,
               hint(bars, s, g));
      html.put(R"(<text class="value {}" x="{:.1f}" y="{:.1f}">{}</text>)", value < 0 ? "end" : "",
               value < 0 ? from - 5 : to + 5, y + 14, figure(value, extent));
    }
    html.put(R"(<path class="base" d="M{:.1f} {:.1f}v{:.1f}"/>)", across(0), y, -height);
    y += 14;
  }
  html.put(R"(<text class="axis end" x="{:.1f}" y="{:.1f}">{}</text>)", width, y + 10,
           escape(bars.x));
}

std::string spoken(const Bars& bars) {
  std::string text = fmt::format("Bar chart: {} by {}.", bars.y, bars.x);
  for (size_t g = 0; g < bars.groups.size(); ++g) {
    text += fmt::format(" {}:", bars.groups[g]);
    for (size_t s = 0; s < bars.series.size(); ++s) {
      if (std::isnan(bars.values[s][g])) continue;
      text += fmt::format(" {} {},", bars.series[s], number(bars.values[s][g]));
    }
    text.back() = '.';
  }
  return text;
}

}  // namespace

void add(Html& html, const Bars& bars) {
  check(bars);
  html.put(R"(<figure class="chart">)");
  add_legend(html, bars.y, bars.series);
  if (bars.groups.empty() || bars.series.empty()) {
    html.put(R"(<p class="none">nothing to draw</p></figure>)");
    return;
  }
  const Extent extent = extent_of(bars);
  for (const Width& width : kWidths) {
    const bool upright = stand_upright(bars, extent, width.pixels - 60);
    html.put(R"(<svg class="bars {}" viewBox="0 0 {} {}" role="img" aria-label="{}">)", width.name,
             width.pixels, upright ? kUprightHeight : lying_height(bars), escape(spoken(bars)));
    upright ? add_upright(html, bars, extent, width.pixels)
            : add_lying(html, bars, extent, width.pixels);
    html.put("</svg>");
  }
  html.put("</figure>");
}

}  // namespace fovea::report
