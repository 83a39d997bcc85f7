#include <algorithm>
#include <array>
#include <cmath>

#include "report/files.h"
#include "report/label.h"
#include "report/page.h"
#include "report/scanpath.h"

// Images with their paths as drawings: a path of pixels for each shade of grey, on black.
namespace fovea::report {
namespace {

constexpr double kImage = 216, kPatch = 52, kPathGap = 8, kPathMargin = 16, kPathLine = 20;
constexpr int kGreys = 16;

// In the box at (x, y), `side` units wide.
void put_image(Markup& svg, const image::Image& image, double x, double y, double side) {
  std::array<std::string, kGreys> runs;
  for (int64_t row = 0; row < image.height; ++row) {
    for (int64_t from = 0, to = 0; from < image.width; from = to) {
      const auto grey = [&](int64_t column) {
        const float v = image.pixels[static_cast<size_t>(row * image.width + column)];
        return static_cast<int>(std::lround(std::clamp(v, 0.0f, 1.0f) * (kGreys - 1)));
      };
      const int k = grey(from);
      for (to = from + 1; to < image.width && grey(to) == k;) ++to;
      if (k > 0) {
        runs[static_cast<size_t>(k)] +=
            fmt::format("M{} {}h{}v1h-{}z", from, row, to - from, to - from);
      }
    }
  }
  const double scale = side / static_cast<double>(std::max(image.height, image.width));
  svg.put(
      R"svg(<g transform="translate({:.2f} {:.2f}) scale({:.4f})" shape-rendering="crispEdges">)svg",
      x, y, scale);
  svg.put(R"(<rect width="{}" height="{}" fill="#000"/>)", image.width, image.height);
  for (int k = 1; k < kGreys; ++k) {
    if (runs[static_cast<size_t>(k)].empty()) continue;
    const int level = 255 * k / (kGreys - 1);
    svg.put(R"(<path fill="#{0:02x}{0:02x}{0:02x}" d="{1}"/>)", level,
            runs[static_cast<size_t>(k)]);
  }
  svg.put("</g>");
}

// Squares as opaque as the root of how often they were looked at, so that few show too.
void put_density(Markup& svg, const Scanpath& path, double left, double top) {
  const Density d = density_of(path);
  std::array<std::string, kGreys> squares;
  for (size_t n = 0; n < d.glimpses.size(); ++n) {
    const auto columns = static_cast<size_t>(d.columns);
    if (d.glimpses[n] == 0) continue;
    const double share = static_cast<double>(d.glimpses[n]) / static_cast<double>(d.most);
    const auto k = std::ceil(std::sqrt(share) * (kGreys - 1));
    squares[static_cast<size_t>(k)] += fmt::format("M{} {}h1v1h-1z", n % columns, n / columns);
  }
  const double scale =
      d.side * kImage / static_cast<double>(std::max(path.image.height, path.image.width));
  svg.put(R"svg(<g class="density" transform="translate({:.2f} {:.2f}) scale({:.4f})">)svg", left,
          top, scale);
  for (size_t k = 1; k < squares.size(); ++k) {
    if (squares[k].empty()) continue;
    svg.put(R"(<path fill="#43d17c" fill-opacity="{:.3f}" d="{}"/>)",
            0.25 + 0.6 * static_cast<double>(k) / (kGreys - 1), squares[k]);
  }
  svg.put("</g>");
}

// The sharpest square of each glimpse, the way between them, and their numbers.
void put_path(Markup& svg, const Scanpath& path, double left, double top) {
  const double scale = kImage / static_cast<double>(std::max(path.image.height, path.image.width));
  const auto x = [&](const Scanpath::Glimpse& g) { return left + scale * g.x; };
  const auto y = [&](const Scanpath::Glimpse& g) { return top + scale * g.y; };
  std::string line;
  for (const Scanpath::Glimpse& g : path.glimpses) {
    line += fmt::format("{}{:.1f} {:.1f}", line.empty() ? "M" : "L", x(g), y(g));
    if (g.sides.empty()) continue;
    const double side = scale * g.sides.front();
    svg.put(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" fill="none" )"
            R"(stroke="#f08a4b" stroke-opacity=".55"/>)",
            x(g) - side / 2, y(g) - side / 2, side, side);
  }
  svg.put(R"(<path d="{}" fill="none" stroke="#4fc3f7" stroke-width="1.5"/>)", line);
  for (size_t i = 0; i < path.glimpses.size(); ++i) {
    const Scanpath::Glimpse& g = path.glimpses[i];
    svg.put(R"(<circle cx="{:.1f}" cy="{:.1f}" r="7.5" fill="#c8550a"/>)", x(g), y(g));
    svg.put(
        R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle" style="font-size:10px;fill:#fff">{}</text>)",
        x(g), y(g) + 3.5, i + 1);
  }
}

double height_of(const Scanpath& path) {
  size_t scales = 1;
  for (const Scanpath::Glimpse& g : path.glimpses) scales = std::max(scales, g.seen.size());
  return kPathLine +
         std::max(kImage + (path.others.empty() ? 0 : kPathLine),
                  kPathLine + static_cast<double>(scales) * (kPatch + kPathGap) + 2 * kPathLine) +
         kPathMargin;
}

double width_of(const Scanpath& path) {
  return 2 * kPathMargin + kImage +
         static_cast<double>(path.glimpses.size()) * (kPatch + kPathGap) + kPathGap;
}

void put_scanpath(Markup& svg, const Scanpath& path, double top) {
  svg.put(R"(<text class="title" x="{}" y="{:.1f}">{}</text>)", kPathMargin, top + 13,
          escape(cut(visible(path.title), 80)));
  top += kPathLine;
  put_image(svg, path.image, kPathMargin, top, kImage);
  if (!path.others.empty()) {
    put_density(svg, path, kPathMargin, top);
    svg.put(R"(<text class="muted" style="font-size:11px" x="{}" y="{:.1f}">{}</text>)",
            kPathMargin, top + kImage + 14,
            fmt::format("green: {} ways, {} at most", path.others.size(), density_of(path).most));
  }
  put_path(svg, path, kPathMargin, top);
  double x = kPathMargin + kImage + 2 * kPathGap;
  for (size_t i = 0; i < path.glimpses.size(); ++i, x += kPatch + kPathGap) {
    const Scanpath::Glimpse& g = path.glimpses[i];
    svg.put(R"(<text class="muted" x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)",
            x + kPatch / 2, top + 13, i + 1);
    double y = top + kPathLine;
    for (const image::Image& one : g.seen) {
      put_image(svg, one, x, y, kPatch);
      y += kPatch + kPathGap;
    }
    svg.put(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)", x + kPatch / 2, y + 10,
            escape(cut(visible(g.said), 7)));
    if (g.shares.empty()) continue;
    svg.put(
        R"(<text class="muted" style="font-size:11px" x="{:.1f}" y="{:.1f}" text-anchor="middle">)"
        "{:.2f}</text>",
        x + kPatch / 2, y + 25, *std::max_element(g.shares.begin(), g.shares.end()));
  }
}

}  // namespace

ScanpathDrawing drawing_of(const std::vector<Scanpath>& paths) {
  Markup body;
  ScanpathDrawing d{.svg = {}, .width = 0, .height = kPathMargin};
  for (const Scanpath& path : paths) {
    check(path);
    put_scanpath(body, path, d.height);
    d.height += height_of(path);
    d.width = std::max({d.width, width_of(path), 2 * kPathMargin + kImage});
  }
  Markup svg;
  svg.put(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:g} {1:g}\" width=\"{0:g}\" "
      "height=\"{1:g}\">\n<style>{2}</style>\n"
      "<rect class=\"paper\" width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{3}</svg>\n",
      d.width, d.height, files::picture_css, body.text());
  d.svg = svg.text();
  return d;
}

// On a page the style is the page's.
void add(Html& html, const Scanpaths& paths) {
  for (const Scanpath& path : paths.items) {
    check(path);
    const double height = height_of(path) - kPathLine, width = width_of(path);
    html.put(R"(<figure class="scan"><figcaption dir="auto">{}</figcaption><div class="scroll">)",
             escape(path.title));
    html.put(R"(<svg viewBox="0 {0:.0f} {1:.0f} {2:.0f}" style="width:{1:.0f}px" role="img" )"
             R"(aria-label="{3} glimpses of an image">)",
             kPathLine, width, height, path.glimpses.size());
    Scanpath untitled = path;
    untitled.title.clear();
    put_scanpath(html, untitled, 0);
    html.put("</svg></div></figure>");
  }
}

}  // namespace fovea::report
