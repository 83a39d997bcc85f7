#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "report/label.h"
#include "report/picture.h"

// Heat-maps as SVG: fills as attributes for a white page, and a style that changes them on a dark
// one.
namespace fovea::report {
namespace {

constexpr int kCell = 24, kMargin = 16, kGap = 8, kLine = 18, kLegend = 128;
constexpr double kLetter = 8.6;  // pixels a character of the labels takes, or less
constexpr int kSteps = 32;       // colours of the dark style

struct Layout {
  Labels labels;
  std::string title;
  double left, top, width, height;  // left, top: of the cells
};

double wide(const std::string& text) { return kLetter * columns_of(text); }

Layout layout_of(const Heatmap& map) {
  Layout at{labels_of(map, 32), cut(visible(map.title), 120), 0, 0, 0, 0};
  at.left = std::ceil(kLetter * at.labels.row_width) + kGap;
  at.top = (at.title.empty() ? 0 : kLine + kGap) +
           (at.labels.turned ? std::ceil(kLetter * at.labels.column_width) : kLine) + kGap;
  const double cells = kCell * static_cast<double>(map.columns.size());
  at.width = std::max({at.left + cells, wide(at.title), at.left + kLegend + 80});
  at.height = at.top + kCell * static_cast<double>(map.rows.size()) + 2 * kGap + kLine;
  return at;
}

int step_of(double share) {
  return static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * (kSteps - 1)));
}

std::string style() {
  std::string css =
      "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
      "fill:#1f242e}.t{font-weight:600}.m{fill:#68707e}.e{text-anchor:end}.c{text-anchor:middle}"
      ".r{fill:#d0d5dd}@media(prefers-color-scheme:dark){text{fill:#e6e8ec}.m{fill:#9aa2b0}"
      ".p{fill:#14171c}.r{fill:#353b46}.u{fill:#666}";
  for (int i = 0; i < kSteps; ++i) {
    css += fmt::format(".k{}{{fill:{}}}", i,
                       hex(colour_of(static_cast<double>(i) / (kSteps - 1), Paper::black)));
  }
  return css + "}";
}

class Drawing {
 public:
  void map(const Heatmap& map, const Layout& at, double x, double y) {
    put(R"x(<g transform="translate({:g} {:g})" role="img" aria-label="{}">)x", x, y,
        escape(at.title.empty() ? "Attention weights" : at.title));
    if (!at.title.empty()) put(R"(<text class="t" x="0" y="14">{}</text>)", escape(at.title));
    if (map.weights.empty()) {
      put(R"(<text class="m" x="0" y="{:g}">(nothing)</text>)", at.top + 14);
    } else {
      labels(at);
      cells(map, at);
      legend(full_weight(map), at);
    }
    put("</g>\n");
  }
  std::string& text() { return text_; }

 private:
  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }

  void labels(const Layout& at) {
    for (size_t j = 0; j < at.labels.columns.size(); ++j) {
      const double x = at.left + kCell * (static_cast<double>(j) + 0.5), y = at.top - kGap;
      const std::string label = escape(at.labels.columns[j]);
      if (at.labels.turned) {
        put(R"x(<text transform="translate({:g} {:g}) rotate(-90)">{}</text>)x", x + 5, y, label);
      } else {
        put(R"(<text class="c" x="{:g}" y="{:g}">{}</text>)", x, y, label);
      }
    }
    for (size_t i = 0; i < at.labels.rows.size(); ++i) {
      put(R"(<text class="e" x="{:g}" y="{:g}">{}</text>)", at.left - kGap,
          at.top + kCell * (static_cast<double>(i) + 0.5) + 5, escape(at.labels.rows[i]));
    }
  }

  void cells(const Heatmap& map, const Layout& at) {
    const size_t columns = map.columns.size(), rows = map.rows.size();
    put(R"(<rect class="r" x="{:g}" y="{:g}" width="{}" height="{}" fill="#d0d5dd"/>)", at.left - 1,
        at.top - 1, columns * kCell + 1, rows * kCell + 1);
    const double full = full_weight(map);
    for (size_t i = 0; i < rows; ++i) {
      for (size_t j = 0; j < columns; ++j) {
        const float weight = map.weights[i * columns + j];
        const bool unknown = std::isnan(weight);
        const double share = unknown ? 0 : weight / full;
        put(R"(<rect class="{}" x="{:g}" y="{:g}" width="{}" height="{}" fill="{}">)",
            unknown ? "u" : fmt::format("k{}", step_of(share)),
            at.left + kCell * static_cast<double>(j), at.top + kCell * static_cast<double>(i),
            kCell - 1, kCell - 1, unknown ? "#bebebe" : hex(colour_of(share, Paper::white)));
        put("<title>{} ← {}  {}</title></rect>", escape(visible(map.rows[i])),
            escape(visible(map.columns[j])),
            unknown ? "NaN" : fmt::format("{:.3f}", static_cast<double>(weight)));
      }
    }
  }

  void legend(double full, const Layout& at) {
    const double y = at.height - kLine;
    put(R"(<text class="m" x="{:g}" y="{:g}">0</text>)", at.left, y + 14);
    constexpr int kStep = kLegend / kSteps;
    for (int i = 0; i < kSteps; ++i) {
      put(R"(<rect class="k{}" x="{:g}" y="{:g}" width="{}" height="12" fill="{}"/>)", i,
          at.left + 16 + kStep * i, y + 3, kStep,
          hex(colour_of(static_cast<double>(i) / (kSteps - 1), Paper::white)));
    }
    put(R"(<text class="m" x="{:g}" y="{:g}">{}</text>)", at.left + 24 + kLegend, y + 14,
        number(full));
  }

  std::string text_;
};

}  // namespace

std::string to_svg(const std::vector<Heatmap>& maps) {
  Drawing drawing;
  double width = 0, height = kMargin;
  for (const Heatmap& map : maps) {
    check(map);
    const Layout at = layout_of(map);
    drawing.map(map, at, kMargin, height);
    width = std::max(width, at.width);
    height += at.height + kMargin;
  }
  width += 2 * kMargin;
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:g} {1:g}\" width=\"{0:g}\" "
      "height=\"{1:g}\">\n<style>{2}</style>\n"
      "<rect class=\"p\" width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{3}</svg>\n",
      width, height, style(), drawing.text());
}

std::string to_svg(const Heatmap& map) { return to_svg(std::vector<Heatmap>{map}); }

}  // namespace fovea::report
