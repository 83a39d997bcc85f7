#include "report/seen.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "fovea/error.h"
#include "image/svg.h"
#include "report/written.h"

namespace fovea::report {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const SeenImage& seen) {
  check(seen);
  Json looks = Json::array();
  for (const SeenImage::Look& look : seen.looks) {
    Json rows = Json::array();
    for (size_t n = 0; n < look.weights.size(); n += static_cast<size_t>(seen.columns)) {
      const auto from = look.weights.begin() + static_cast<int64_t>(n);
      rows.push_back(std::vector<float>(from, from + seen.columns));
    }
    Json& one = looks.emplace_back(Json{{"label", look.label}, {"weights", rows}});
    for (const SeenImage::Box& b : look.boxes) {
      one["boxes"].push_back({b.left, b.top, b.width, b.height});
    }
  }
  return {{"title", seen.title}, {"height", seen.image.height}, {"width", seen.image.width},
          {"rows", seen.rows},   {"columns", seen.columns},     {"looks", looks}};
}

}  // namespace

double full_weight(const SeenImage::Look& look, Scale scale) {
  double most = 0;
  for (const float w : look.weights) {
    if (!std::isfinite(w)) continue;
    const auto x = static_cast<double>(w);
    most = std::max(most, scale == Scale::from_zero ? x : std::abs(x));
  }
  return most > 0 ? most : 1;
}

void check(const SeenImage& seen) {
  // By division: rows and columns may come from a request, and their product overflow.
  const auto covers = [&](int64_t n) {
    return seen.rows > 0 && n % seen.rows == 0 && n / seen.rows == seen.columns;
  };
  for (const SeenImage::Look& look : seen.looks) {
    const auto found = static_cast<int64_t>(look.weights.size());
    if (found == 0 || covers(found)) continue;
    throw Error("seen", fmt::format("'{}' has {} weights for {} × {} places", look.label, found,
                                    seen.rows, seen.columns));
  }
  if (seen.between.empty()) return;
  const auto places = static_cast<int64_t>(std::sqrt(static_cast<double>(seen.between.size())));
  if (places * places == static_cast<int64_t>(seen.between.size()) && covers(places)) return;
  throw Error("seen", fmt::format("{} weights between {} × {} places", seen.between.size(),
                                  seen.rows, seen.columns));
}

std::string to_json(const SeenImage& seen) { return dump(json_of(seen)); }

std::string to_png(const std::vector<SeenImage>& images) {
  const SeenDrawing d = drawing_of(images);
  const double scale = png_scale(d.width, d.height, fmt::format("{} images", images.size()));
  return image::to_png({d.svg, d.width, d.height, scale});
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
