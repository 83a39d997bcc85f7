#include "report/scanpath.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "fovea/error.h"
#include "image/image_file.h"
#include "report/files.h"
#include "report/label.h"
#include "report/packed.h"
#include "report/page.h"
#include "report/written.h"

namespace fovea::report {
namespace {

using Json = nlohmann::ordered_json;

void expect_grey(const image::Image& image) {
  const bool grey = image.channels == 1 && image.height > 0 && image.width > 0;
  if (grey && static_cast<int64_t>(image.pixels.size()) == image.height * image.width) return;
  throw Error("scanpath",
              fmt::format("{} pixels of an image of {} × {} × {}, expected a grey one",
                          image.pixels.size(), image.height, image.width, image.channels));
}

void check(const Picture& picture) {
  const auto& path = picture.get<Scanpath>();
  expect_grey(path.image);
  for (const Scanpath::Glimpse& g : path.glimpses) {
    for (const image::Image& one : g.seen) expect_grey(one);
    if (g.shares.empty() || g.shares.size() == path.classes.size()) continue;
    throw Error("scanpath",
                fmt::format("{} shares of {} classes", g.shares.size(), path.classes.size()));
  }
}

// ---- In a terminal ------------------------------------------------------------------------------

// The number of the glimpse that is shown in a cell of the terminal; the latest one wins.
char number_at(const Scanpath& path, double y0, double y1, double x0, double x1) {
  static constexpr std::string_view kNumbers = "123456789abcdefghijklmnopqrstuvwxyz";
  for (size_t i = path.glimpses.size(); i-- > 0;) {
    const Scanpath::Glimpse& g = path.glimpses[i];
    const double y = std::clamp(g.y, 0.0, static_cast<double>(path.image.height) - 0.01);
    const double x = std::clamp(g.x, 0.0, static_cast<double>(path.image.width) - 0.01);
    if (y >= y0 && y < y1 && x >= x0 && x < x1) return kNumbers[std::min(i, kNumbers.size() - 1)];
  }
  return '\0';
}

std::string text(const Picture& picture, Ink ink, int width) {
  const auto& path = picture.get<Scanpath>();
  static constexpr std::string_view kLetters = " .:-=+*#%@";
  const image::Image& image = path.image;
  // A letter is twice as high as it is wide.
  const int64_t columns = std::clamp<int64_t>(std::min<int64_t>(2 * image.width, width), 1, 80);
  const int64_t rows = std::max<int64_t>(1, image.height * columns / (2 * image.width));
  std::string out = path.title.empty() ? "" : visible(path.title) + "\n";
  for (int64_t r = 0; r < rows; ++r) {
    const double y0 = static_cast<double>(r * image.height) / static_cast<double>(rows);
    const double y1 = static_cast<double>((r + 1) * image.height) / static_cast<double>(rows);
    for (int64_t c = 0; c < columns; ++c) {
      const double x0 = static_cast<double>(c * image.width) / static_cast<double>(columns);
      const double x1 = static_cast<double>((c + 1) * image.width) / static_cast<double>(columns);
      if (const char number = number_at(path, y0, y1, x0, x1)) {
        out += ink == Ink::colour ? fmt::format("\x1b[1;38;2;255;140;60m{}\x1b[0m", number)
                                  : std::string(1, number);
        continue;
      }
      float brightest = 0;
      for (auto y = static_cast<int64_t>(y0); y < static_cast<int64_t>(std::ceil(y1)); ++y) {
        for (auto x = static_cast<int64_t>(x0); x < static_cast<int64_t>(std::ceil(x1)); ++x) {
          brightest = std::max(brightest, image.pixels[static_cast<size_t>(y * image.width + x)]);
        }
      }
      const float share = std::clamp(brightest, 0.0f, 1.0f);
      out += kLetters[static_cast<size_t>(share * static_cast<float>(kLetters.size() - 1))];
    }
    while (!out.empty() && out.back() == ' ') out.pop_back();
    out += '\n';
  }
  for (size_t i = 0; i < path.glimpses.size(); ++i) {
    const Scanpath::Glimpse& g = path.glimpses[i];
    out += fmt::format("{:>2}  at {:5.1f}, {:5.1f}  {}\n", i + 1, g.x, g.y, visible(g.said));
  }
  return out;
}

// ---- As a drawing: a path of pixels for each shade of grey, on black
// -----------------------------

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

Drawing drawing(std::span<const Picture> paths, Target) {
  Markup body;
  double width = 0, height = kPathMargin;
  for (const Picture& picture : paths) {
    const auto& path = picture.get<Scanpath>();
    put_scanpath(body, path, height);
    height += height_of(path);
    width = std::max({width, width_of(path), 2 * kPathMargin + kImage});
  }
  return svg_file(width, height, files::picture_css, body.text());
}

// On a page the style is the page's.
void page(Html& html, std::span<const Picture> paths) {
  for (const Picture& picture : paths) {
    Scanpath path = picture.get<Scanpath>();
    const double height = height_of(path) - kPathLine, width = width_of(path);
    html.put(R"(<figure class="scan"><figcaption dir="auto">{}</figcaption><div class="scroll">)",
             escape(path.title));
    html.put(R"(<svg viewBox="0 {0:.0f} {1:.0f} {2:.0f}" style="width:{1:.0f}px" role="img" )"
             R"(aria-label="{3} glimpses of an image">)",
             kPathLine, width, height, path.glimpses.size());
    path.title.clear();
    put_scanpath(html, path, 0);
    html.put("</svg></div></figure>");
  }
}

std::string caption(const Answered& a) {
  const bool right = a.output == a.expected;
  return fmt::format("{} {}: {} {:.2f}{}", right ? "✓" : "✗", a.input, a.output, a.score,
                     right ? "" : ", expected " + a.expected);
}

// ---- As data ------------------------------------------------------------------------------------

Json pixels_of(const image::Image& image) {
  return {{"height", image.height}, {"width", image.width}, {"pixels", image.pixels}};
}

Json places_of(const std::vector<std::vector<Scanpath::Place>>& ways) {
  Json all = Json::array();
  for (const std::vector<Scanpath::Place>& way : ways) {
    Json& places = all.emplace_back(Json::array());
    for (const Scanpath::Place& at : way) places.push_back({at.x, at.y});
  }
  return all;
}

Json json(const Picture& picture) {
  const auto& path = picture.get<Scanpath>();
  Json glimpses = Json::array();
  for (const Scanpath::Glimpse& g : path.glimpses) {
    Json seen = Json::array();
    for (const image::Image& one : g.seen) seen.push_back(pixels_of(one));
    Json& made = glimpses.emplace_back(
        Json{{"x", g.x}, {"y", g.y}, {"sides", g.sides}, {"said", g.said}, {"seen", seen}});
    if (!g.shares.empty()) made["shares"] = g.shares;
  }
  Json j = {{"title", path.title}, {"image", pixels_of(path.image)}, {"glimpses", glimpses}};
  if (!path.classes.empty()) j["classes"] = path.classes;
  if (!path.others.empty()) j["others"] = places_of(path.others);
  return j;
}

// A line for each glimpse: where it was, what was said then and how likely each class was.
std::string csv(std::span<const Picture> paths) {
  std::string text = "picture,glimpse,x,y,side,said";
  for (const std::string& name : paths.front().get<Scanpath>().classes) text += ',' + quoted(name);
  text += "\r\n";
  for (const Picture& picture : paths) {
    const auto& path = picture.get<Scanpath>();
    for (size_t t = 0; t < path.glimpses.size(); ++t) {
      const Scanpath::Glimpse& g = path.glimpses[t];
      text += fmt::format("{},{},{},{},{},{}", quoted(path.title), t + 1, g.x, g.y,
                          g.sides.empty() ? 0 : g.sides.front(), quoted(g.said));
      for (const float share : g.shares) text += fmt::format(",{}", share);
      text += "\r\n";
    }
  }
  return text;
}

Json density_in(const Scanpath& path) {
  if (path.others.empty()) return nullptr;
  const Density d = density_of(path);
  return {{"rows", d.rows},
          {"columns", d.columns},
          {"side", d.side},
          {"most", d.most},
          {"glimpses", d.glimpses}};
}

Json pack(const Picture& picture, Numbers) {
  const auto& path = picture.get<Scanpath>();
  Json glimpses = Json::array();
  for (const Scanpath::Glimpse& g : path.glimpses) {
    Json seen = Json::array();
    for (const image::Image& one : g.seen) seen.push_back(packed(one));
    glimpses.push_back({{"x", g.x},
                        {"y", g.y},
                        {"sides", g.sides},
                        {"said", g.said},
                        {"shares", g.shares},
                        {"seen", seen}});
  }
  return {{"title", path.title},
          {"image", packed(path.image)},
          {"height", path.image.height},
          {"width", path.image.width},
          {"classes", path.classes},
          {"glimpses", glimpses},
          {"others", places_of(path.others)},
          {"density", density_in(path)}};
}

image::Image grey_in(const Json& json) {
  return image::with_channels(image_in(json.get<std::string>()), 1);
}

Picture unpack(const Json& json) {
  Scanpath path{.title = json.value("title", ""), .image = grey_in(json.at("image"))};
  path.classes = json.value("classes", std::vector<std::string>());
  for (const Json& glimpse : json.at("glimpses")) {
    Scanpath::Glimpse& g = path.glimpses.emplace_back();
    g.x = glimpse.at("x").get<double>();
    g.y = glimpse.at("y").get<double>();
    g.sides = glimpse.at("sides").get<std::vector<double>>();
    g.said = glimpse.at("said").get<std::string>();
    g.shares = glimpse.value("shares", std::vector<float>());
    for (const Json& one : glimpse.at("seen")) g.seen.push_back(grey_in(one));
  }
  for (const Json& way : json.value("others", Json::array())) {
    std::vector<Scanpath::Place>& places = path.others.emplace_back();
    for (const Json& at : way) {
      const auto xy = at.get<std::array<double, 2>>();
      places.push_back({xy[0], xy[1]});
    }
  }
  return path;
}

Picture example() {
  Scanpath path{.title = "a seven", .image = {2, 3, 1}};
  path.image.pixels = {0, 1, 0, 0, 1, 0};
  path.classes = {"1", "7"};
  path.glimpses.push_back({1, 1, {2}, {path.image}, "1", {0.75f, 0.25f}});
  path.glimpses.push_back({2, 0, {2}, {path.image}, "7", {0.25f, 0.75f}});
  path.others = {{{0, 1}, {2, 1}}};
  return path;
}

}  // namespace

Density density_of(const Scanpath& path) {
  constexpr double kAcross = 30;  // squares along the longer side, or as many as it has pixels
  const auto tall = static_cast<double>(path.image.height),
             wide = static_cast<double>(path.image.width);
  Density d{.side = std::max(1.0, std::max(tall, wide) / kAcross)};
  d.rows = static_cast<int64_t>(std::ceil(tall / d.side));
  d.columns = static_cast<int64_t>(std::ceil(wide / d.side));
  d.glimpses.resize(static_cast<size_t>(d.rows * d.columns));
  const auto cell = [&](double at, int64_t n) {
    return static_cast<int64_t>(std::clamp(at / d.side, 0.0, static_cast<double>(n - 1)));
  };
  for (const std::vector<Scanpath::Place>& way : path.others) {
    for (const Scanpath::Place& at : way) {
      int64_t& n =
          d.glimpses[static_cast<size_t>(cell(at.y, d.rows) * d.columns + cell(at.x, d.columns))];
      d.most = std::max(d.most, ++n);
    }
  }
  return d;
}

extern const PictureKind picture_scanpath = {
    .name = "scanpath",
    .plural = "paths",
    .about =
        "Where the model looked, glimpse by glimpse: the way over the image, and beside it "
        "what was seen, with what it would have answered then.",
    .caption = caption,
    .check = check,
    .text = text,
    .drawing = drawing,
    .json = json,
    .csv = csv,
    .page = page,
    .pack = pack,
    .unpack = unpack,
    .titled = with_title<Scanpath>,
    .example = example,
};
const PictureKind& Scanpath::kind() { return picture_scanpath; }

}  // namespace fovea::report
