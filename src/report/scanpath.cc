#include "report/scanpath.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "fovea/error.h"
#include "image/svg.h"
#include "report/label.h"
#include "report/written.h"

namespace fovea::report {
namespace {

using Json = nlohmann::ordered_json;

void check(const image::Image& image) {
  const bool grey = image.channels == 1 && image.height > 0 && image.width > 0;
  if (grey && static_cast<int64_t>(image.pixels.size()) == image.height * image.width) return;
  throw Error("scanpath",
              fmt::format("{} pixels of an image of {} × {} × {}, expected a grey one",
                          image.pixels.size(), image.height, image.width, image.channels));
}

Json json_of(const image::Image& image) {
  return {{"height", image.height}, {"width", image.width}, {"pixels", image.pixels}};
}

Json json_of(const Scanpath& path) {
  check(path);
  Json glimpses = Json::array();
  for (const Scanpath::Glimpse& g : path.glimpses) {
    Json seen = Json::array();
    for (const image::Image& one : g.seen) seen.push_back(json_of(one));
    Json& made = glimpses.emplace_back(
        Json{{"x", g.x}, {"y", g.y}, {"sides", g.sides}, {"said", g.said}, {"seen", seen}});
    if (!g.shares.empty()) made["shares"] = g.shares;
  }
  Json j = {{"title", path.title}, {"image", json_of(path.image)}, {"glimpses", glimpses}};
  if (!path.classes.empty()) j["classes"] = path.classes;
  for (const std::vector<Scanpath::Place>& way : path.others) {
    Json& places = j["others"].emplace_back(Json::array());
    for (const Scanpath::Place& at : way) places.push_back({at.x, at.y});
  }
  return j;
}

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

}  // namespace

void check(const Scanpath& path) {
  check(path.image);
  for (const Scanpath::Glimpse& g : path.glimpses) {
    for (const image::Image& one : g.seen) check(one);
    if (g.shares.empty() || g.shares.size() == path.classes.size()) continue;
    throw Error("scanpath",
                fmt::format("{} shares of {} classes", g.shares.size(), path.classes.size()));
  }
}

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

std::string to_png(const std::vector<Scanpath>& paths) {
  const ScanpathDrawing d = drawing_of(paths);
  const double scale = png_scale(d.width, d.height, fmt::format("{} images", paths.size()));
  return image::to_png({d.svg, d.width, d.height, scale});
}

std::string to_json(const Scanpath& path) { return dump(json_of(path)); }

std::string to_text(const Scanpath& path, Ink ink, int width) {
  check(path);
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

void write(const std::filesystem::path& file, const std::vector<Scanpath>& paths) {
  const PictureFormat format = picture_format(file);
  if (format == PictureFormat::json) {
    Json list = Json::array();
    for (const Scanpath& path : paths) list.push_back(json_of(path));
    return write_file(file, dump(paths.size() == 1 ? list[0] : list) + "\n");
  }
  if (paths.empty()) throw Error("write", fmt::format("{}: no image to draw", file.string()));
  write_file(file, format == PictureFormat::svg ? drawing_of(paths).svg : to_png(paths));
}

}  // namespace fovea::report
