#include "report/heatmap.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "fovea/error.h"
#include "report/label.h"
#include "report/picture.h"
#include "report/written.h"

namespace fovea::report {
namespace {

using Json = nlohmann::ordered_json;

// The shortest decimal that reads back as this float; NaN is written as null.
Json decimal(float weight) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, weight).ptr;
  double value = 0;
  std::from_chars(text, end, value);
  return value;
}

Json json_of(const Heatmap& map) {
  check(map);
  Json weights = Json::array();
  for (size_t i = 0; i < map.rows.size(); ++i) {
    Json row = Json::array();
    for (size_t j = 0; j < map.columns.size(); ++j) {
      row.push_back(decimal(map.weights[i * map.columns.size() + j]));
    }
    weights.push_back(std::move(row));
  }
  return {{"title", map.title}, {"rows", map.rows}, {"columns", map.columns}, {"weights", weights}};
}

}  // namespace

void check(const Heatmap& map) {
  if (map.weights.size() == map.rows.size() * map.columns.size()) return;
  throw Error("heatmap", fmt::format("{} weights for {} rows and {} columns, expected {}",
                                     map.weights.size(), map.rows.size(), map.columns.size(),
                                     map.rows.size() * map.columns.size()));
}

double full_weight(const Heatmap& map) {
  float largest = 0;
  for (const float weight : map.weights) {
    if (std::isfinite(weight)) {
      largest = std::max(largest, map.scale == Scale::around_zero ? std::abs(weight) : weight);
    }
  }
  if (map.scale == Scale::around_zero) return largest == 0 ? 1.0 : largest;
  return largest == 0 || (largest > 0.5f && largest <= 1.001f) ? 1.0 : largest;
}

std::string low_end(const Heatmap& map) {
  return map.scale == Scale::from_zero ? "0" : "−" + number(full_weight(map));
}

std::string to_json(const Heatmap& map) { return dump(json_of(map)); }

PictureFormat picture_format(const std::filesystem::path& path) {
  const std::string ending = path.extension().string();
  if (ending == ".json") return PictureFormat::json;
  if (ending == ".svg") return PictureFormat::svg;
  if (ending == ".png") return PictureFormat::png;
  throw Error("write", fmt::format("{}: a picture ends in .json, .svg or .png", path.string()));
}

void write(const std::filesystem::path& path, const std::vector<Heatmap>& maps) {
  const PictureFormat format = picture_format(path);
  if (format == PictureFormat::json) {
    Json list = Json::array();
    for (const Heatmap& map : maps) list.push_back(json_of(map));
    return write_file(path, dump(maps.size() == 1 ? list[0] : list) + "\n");
  }
  if (maps.empty()) throw Error("write", fmt::format("{}: no heat-map to draw", path.string()));
  write_file(path, format == PictureFormat::svg ? to_svg(maps) : to_png(maps));
}

}  // namespace fovea::report
