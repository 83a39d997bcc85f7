#include "report/seen.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "fovea/error.h"
#include "image/image_file.h"
#include "image/svg.h"
#include "io/base64.h"
#include "report/label.h"
#include "report/markup.h"
#include "report/written.h"

namespace fovea::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kPanel = 132, kGap = 14, kLine = 20, kMargin = 16;
constexpr size_t kAcross = 6;
constexpr int kDarks = 12;        // shades of what was not looked at
constexpr double kDarkest = 0.8;  // how much of it is hidden

double largest(const std::vector<float>& weights) {
  double most = 0;
  for (const float w : weights) {
    if (std::isfinite(w)) most = std::max(most, static_cast<double>(w));
  }
  return most > 0 ? most : 1;
}

// One path for each shade, in units of a cell.
void put_darkness(Markup& svg, const SeenImage& seen, const SeenImage::Look& look) {
  const double full = largest(look.weights);
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
  svg.put(R"x(<g transform="translate({:.1f} {:.1f})"><image width="{:.1f}" height="{:.1f}" )x"
          R"(preserveAspectRatio="none" href="{}"/>)",
          x, y, f.width, f.height, pixels);
  if (!look.weights.empty()) {
    svg.put(R"x(<g shape-rendering="crispEdges" transform="scale({:.4f} {:.4f})">)x",
            f.width / static_cast<double>(seen.columns), f.height / static_cast<double>(seen.rows));
    put_darkness(svg, seen, look);
    svg.put("</g>");
  }
  const double scale = f.width / static_cast<double>(seen.image.width);
  for (const SeenImage::Box& box : look.boxes) {
    svg.put(R"(<rect fill="none" stroke="#f5a623" stroke-width="2" x="{:.1f}" y="{:.1f}" )"
            R"(width="{:.1f}" height="{:.1f}"/>)",
            box.left * scale, box.top * scale, box.width * scale, box.height * scale);
  }
  svg.put(R"(<text fill="currentColor" x="0" y="{:.1f}">{}</text></g>)", f.height + 15,
          escape(cut(visible(look.label), 18)));
}

// Gives where the next sheet begins.
double put_sheet(Markup& svg, const SeenImage& seen, double y) {
  check(seen);
  const std::string pixels = "data:image/png;base64," + to_base64(image::to_png(seen.image));
  if (!seen.title.empty()) {
    svg.put(R"(<text fill="currentColor" font-weight="600" x="{}" y="{:.1f}">{}</text>)", kMargin,
            y + 14, escape(cut(visible(seen.title), 110)));
    y += kLine + 6;
  }
  std::vector<SeenImage::Look> panels = seen.looks;
  panels.insert(panels.begin(), SeenImage::Look{});
  const double down = frame_of(seen).height + kLine + kGap;
  for (size_t n = 0; n < panels.size(); ++n) {
    put_panel(svg, seen, panels[n], pixels, kMargin + (kPanel + kGap) * double(n % kAcross),
              y + down * double(n / kAcross));
  }
  return y + down * double((panels.size() + kAcross - 1) / kAcross) + kGap;
}

Json json_of(const SeenImage& seen) {
  check(seen);
  Json looks = Json::array();
  for (const SeenImage::Look& look : seen.looks) {
    Json rows = Json::array();
    for (size_t n = 0; n < look.weights.size(); n += static_cast<size_t>(seen.columns)) {
      const auto from = look.weights.begin() + static_cast<int64_t>(n);
      rows.push_back(std::vector<float>(from, from + seen.columns));
    }
    looks.push_back({{"label", look.label}, {"weights", rows}});
  }
  return {{"title", seen.title}, {"height", seen.image.height}, {"width", seen.image.width},
          {"rows", seen.rows},   {"columns", seen.columns},     {"looks", looks}};
}

std::string to_png(const std::vector<SeenImage>& images) {
  const SeenDrawing d = drawing_of(images);
  const double scale = png_scale(d.width, d.height, fmt::format("{} images", images.size()));
  return image::to_png({d.svg, d.width, d.height, scale});
}

}  // namespace

void check(const SeenImage& seen) {
  for (const SeenImage::Look& look : seen.looks) {
    const auto found = static_cast<int64_t>(look.weights.size());
    if (found == 0 || (seen.rows > 0 && found == seen.rows * seen.columns)) continue;
    throw Error("seen", fmt::format("'{}' has {} weights for {} × {} places", look.label, found,
                                    seen.rows, seen.columns));
  }
}

std::string to_json(const SeenImage& seen) { return dump(json_of(seen)); }

SeenDrawing drawing_of(const std::vector<SeenImage>& images) {
  Markup body;
  size_t across = 1;
  double y = kMargin;
  for (const SeenImage& seen : images) {
    across = std::max(across, std::min(seen.looks.size() + 1, kAcross));
    y = put_sheet(body, seen, y);
  }
  SeenDrawing d{{}, 2 * kMargin + static_cast<double>(across) * (kPanel + kGap) - kGap, y};
  Markup svg;
  svg.put(R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0:g} {1:g}" width="{0:g}" )"
          R"(height="{1:g}" font-family="system-ui,DejaVu Sans,sans-serif" font-size="13">)"
          "\n{2}</svg>\n",
          d.width, d.height, body.text());
  d.svg = svg.text();
  return d;
}

std::string to_text(const SeenImage& seen, Ink ink, int width) {
  check(seen);
  std::string all;
  for (const SeenImage::Look& look : seen.looks) {
    Heatmap map{.title = look.label, .weights = look.weights};
    for (int64_t i = 1; i <= seen.rows; ++i) map.rows.push_back(std::to_string(i));
    for (int64_t j = 1; j <= seen.columns; ++j) map.columns.push_back(std::to_string(j));
    if (look.weights.empty()) continue;
    all += (all.empty() ? "" : "\n") + look.label + "\n" + to_text(map, ink, width);
  }
  return all;
}

void write(const std::filesystem::path& path, const std::vector<SeenImage>& images) {
  std::string bytes;
  switch (picture_format(path)) {
    case PictureFormat::json: {
      Json all = Json::array();
      for (const SeenImage& seen : images) all.push_back(json_of(seen));
      bytes = dump(images.size() == 1 ? all[0] : all) + "\n";
      break;
    }
    case PictureFormat::svg:
      bytes = drawing_of(images).svg;
      break;
    case PictureFormat::png:
      bytes = to_png(images);
      break;
  }
  write_file(path, bytes);
}

}  // namespace fovea::report
