#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "image/image_file.h"
#include "io/base64.h"
#include "report/files.h"
#include "report/label.h"
#include "report/page.h"
#include "report/picture.h"
#include "report/seen.h"

// Images and where they were looked at, as drawings: sheets of panels.
namespace fovea::report {
namespace {

constexpr double kPanel = 132, kSeenGap = 14, kSeenLine = 20, kSmall = 16, kSeenMargin = 16;
constexpr size_t kAcross = 6, kLeast = 3;  // panels of a row, and room for the legend
constexpr int kDarks = 12;                 // shades of what was not looked at
constexpr double kDarkest = 0.8;           // how much of it is hidden
constexpr double kOutline = 1.5;           // of what was looked at, in units of the drawing
constexpr double kPale = 0.6, kInk = 0.9;  // what hides the image below signed weights, and these

// In nats; weights that do not sum to 1 are taken as shares.
double entropy_of(const std::vector<float>& weights) {
  double sum = 0, h = 0;
  for (const float w : weights) sum += std::isfinite(w) ? std::max(w, 0.0f) : 0;
  for (const float w : weights) {
    if (w > 0 && std::isfinite(w)) h -= w / sum * std::log(w / sum);
  }
  return h;
}

void put_small(Markup& svg, double x, double y, const std::string& text) {
  svg.put(R"(<text class="muted" style="font-size:12px" x="{:.1f}" y="{:.1f}">{}</text>)", x, y,
          escape(text));
}

// One path for each shade, in units of a cell.
void put_darkness(Markup& svg, const SeenImage& seen, const SeenImage::Look& look) {
  const double full = full_weight(look, seen.scale);
  std::array<std::string, kDarks + 1> paths;
  for (size_t n = 0; n < look.weights.size(); ++n) {
    const double share = std::clamp(static_cast<double>(look.weights[n]) / full, 0.0, 1.0);
    const auto dark =
        static_cast<size_t>(std::lround((1 - (std::isnan(share) ? 0 : share)) * kDarks));
    const auto columns = static_cast<size_t>(seen.columns);
    paths[dark] += fmt::format("M{} {}h1v1h-1z", n % columns, n / columns);
  }
  for (size_t dark = 1; dark < paths.size(); ++dark) {
    if (paths[dark].empty()) continue;
    svg.put(R"(<path fill="#000" fill-opacity="{:.3f}" d="{}"/>)",
            kDarkest * static_cast<double>(dark) / kDarks, paths[dark]);
  }
}

// Around the places that have half of the largest weight or more, so that they are found on any
// image; in units of a cell, as `width` is.
void put_outline(Markup& svg, const SeenImage& seen, const SeenImage::Look& look, double width) {
  const double half = full_weight(look, seen.scale) / 2;
  const auto inside = [&](int64_t y, int64_t x) {
    return y >= 0 && x >= 0 && y < seen.rows && x < seen.columns &&
           static_cast<double>(look.weights[static_cast<size_t>(y * seen.columns + x)]) >= half;
  };
  std::string edges;
  for (int64_t y = 0; y <= seen.rows; ++y) {
    for (int64_t x = 0; x <= seen.columns; ++x) {
      if (inside(y, x) != inside(y - 1, x)) edges += fmt::format("M{} {}h1", x, y);
      if (inside(y, x) != inside(y, x - 1)) edges += fmt::format("M{} {}v1", x, y);
    }
  }
  svg.put(R"(<path fill="none" stroke="#35c8ff" stroke-width="{:.3f}" d="{}"/>)", width, edges);
}

// The same for signed weights, over a veil.
void put_signs(Markup& svg, const SeenImage& seen, const SeenImage::Look& look) {
  const double full = full_weight(look, seen.scale);
  std::array<std::string, 2 * kDarks + 1> paths;
  for (size_t n = 0; n < look.weights.size(); ++n) {
    const double share = std::clamp(static_cast<double>(look.weights[n]) / full, -1.0, 1.0);
    const auto at = std::lround((std::isnan(share) ? 0 : share) * kDarks) + kDarks;
    const auto columns = static_cast<size_t>(seen.columns);
    paths[static_cast<size_t>(at)] += fmt::format("M{} {}h1v1h-1z", n % columns, n / columns);
  }
  svg.put(R"(<rect fill="#fff" fill-opacity="{:.1f}" width="{}" height="{}"/>)", kPale,
          seen.columns, seen.rows);
  for (size_t at = 0; at < paths.size(); ++at) {
    const int sign = static_cast<int>(at) - kDarks;
    if (sign == 0 || paths[at].empty()) continue;
    svg.put(R"(<path fill="{}" fill-opacity="{:.3f}" d="{}"/>)",
            hex(signed_colour_of(sign > 0 ? 0.7 : -0.7, Paper::white)),
            kInk * std::abs(sign) / kDarks, paths[at]);
  }
}

struct Frame {
  double width, height;  // of a panel's image
};

Frame frame_of(const SeenImage& seen) {
  const double tall = static_cast<double>(seen.image.height),
               wide = static_cast<double>(seen.image.width), scale = kPanel / std::max(tall, wide);
  return {wide * scale, tall * scale};
}

void put_panel(Markup& svg, const SeenImage& seen, const SeenImage::Look& look,
               const std::string& pixels, double x, double y) {
  const Frame f = frame_of(seen);
  const bool signs = seen.scale == Scale::around_zero;
  svg.put(R"x(<g transform="translate({:.1f} {:.1f})"><image width="{:.1f}" height="{:.1f}" )x"
          R"(preserveAspectRatio="none" href="{}"/>)",
          x, y, f.width, f.height, pixels);
  if (!look.weights.empty()) {
    svg.put(R"x(<g shape-rendering="crispEdges" transform="scale({:.4f} {:.4f})">)x",
            f.width / static_cast<double>(seen.columns), f.height / static_cast<double>(seen.rows));
    if (signs) {
      put_signs(svg, seen, look);
    } else {
      put_darkness(svg, seen, look);
      put_outline(svg, seen, look, kOutline * static_cast<double>(seen.columns) / f.width);
    }
    svg.put("</g>");
  }
  const double scale = f.width / static_cast<double>(seen.image.width);
  for (const SeenImage::Box& box : look.boxes) {
    svg.put(R"(<rect fill="none" stroke="{}" stroke-width="2" x="{:.1f}" y="{:.1f}" )"
            R"(width="{:.1f}" height="{:.1f}"/>)",
            signs ? "#333" : "#f5a623", box.left * scale, box.top * scale, box.width * scale,
            box.height * scale);
  }
  svg.put(R"(<text x="0" y="{:.1f}">{}</text>)", f.height + 15,
          escape(cut(visible(look.label), 16)));
  if (!look.weights.empty()) {
    const double most = full_weight(look, seen.scale);
    put_small(svg, 0, f.height + 15 + kSmall,
              signs ? fmt::format("most ±{:.2g}", most)
                    : fmt::format("most {:.2g} H {:.3g}", most, entropy_of(look.weights)));
  }
  svg.put("</g>");
}

// What bright and dark mean, and what would be said of weights that are all the same.
double put_legend(Markup& svg, const SeenImage& seen, double y) {
  const auto places = static_cast<double>(seen.rows * seen.columns);
  if (seen.scale == Scale::around_zero) {
    put_small(svg, kSeenMargin, y + kSmall,
              "orange: for it; blue: against it, each to its largest");
    return y + kSmall;
  }
  put_small(svg, kSeenMargin, y + kSmall,
            "bright: each picture's largest weight; blue: half of it");
  put_small(svg, kSeenMargin, y + 2 * kSmall,
            fmt::format("{} places; equal weights: {:.2g}, entropy H {:.3g} nats", places,
                        1 / places, std::log(places)));
  return y + 2 * kSmall;
}

// Gives where the next sheet begins.
double put_sheet(Markup& svg, const SeenImage& seen, double y) {
  check(seen);
  const auto embedded = [](const image::Image& x) {
    return "data:image/png;base64," + to_base64(image::to_png(x));
  };
  const std::string pixels = embedded(seen.image),
                    below = seen.scale == Scale::from_zero
                                ? pixels
                                : embedded(image::with_channels(seen.image, 1));
  if (!seen.title.empty()) {
    svg.put(R"(<text class="title" x="{}" y="{:.1f}">{}</text>)", kSeenMargin, y + 14,
            escape(cut(visible(seen.title), 100)));
    y += kSeenLine + 6;
  }
  std::vector<SeenImage::Look> panels = seen.looks;
  panels.insert(panels.begin(), SeenImage::Look{});
  const double down = frame_of(seen).height + kSeenLine + kSmall + kSeenGap;
  for (size_t n = 0; n < panels.size(); ++n) {
    put_panel(svg, seen, panels[n], n == 0 ? pixels : below,
              kSeenMargin + (kPanel + kSeenGap) * double(n % kAcross),
              y + down * double(n / kAcross));
  }
  y += down * double((panels.size() + kAcross - 1) / kAcross);
  return (seen.looks.empty() ? y : put_legend(svg, seen, y)) + kSeenGap;
}

// The sheets, without the paper they lie on.
SeenDrawing sheets_of(const std::vector<SeenImage>& images) {
  Markup body;
  size_t across = kLeast;
  double y = kSeenMargin;
  for (const SeenImage& seen : images) {
    across = std::max(across, std::min(seen.looks.size() + 1, kAcross));
    y = put_sheet(body, seen, y);
  }
  return {body.text(),
          2 * kSeenMargin + static_cast<double>(across) * (kPanel + kSeenGap) - kSeenGap, y};
}

}  // namespace

SeenDrawing drawing_of(const std::vector<SeenImage>& images) {
  SeenDrawing d = sheets_of(images);
  Markup svg;
  svg.put(R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0:g} {1:g}" width="{0:g}" )"
          "height=\"{1:g}\">\n<style>{2}</style>\n"
          "<rect class=\"paper\" width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{3}</svg>\n",
          d.width, d.height, files::picture_css, d.svg);
  d.svg = svg.text();
  return d;
}

// On a page the style is the page's, and the sheet shrinks with it.
void add(Html& html, const SeenImages& images) {
  for (const SeenImages::Item& item : images.items) {
    SeenImage seen = item.seen;
    seen.title.clear();
    const SeenDrawing d = sheets_of({seen});
    html.put(R"(<figure class="seen"><figcaption dir="auto">{}</figcaption>)"
             R"(<div class="scroll" style="max-width:{:.0f}px" role="img" aria-label="{}">)",
             escape(item.caption), d.width, escape(item.caption));
    html.put(R"(<svg viewBox="0 0 {:g} {:g}">{}</svg></div></figure>)"
             "\n",
             d.width, d.height, d.svg);
  }
}

}  // namespace fovea::report
