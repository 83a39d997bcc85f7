#include "report/heatmap.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "fovea/error.h"
#include "report/drawing.h"
#include "report/label.h"
#include "report/packed.h"
#include "report/written.h"

namespace fovea::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostLabels = size_t{1} << 16;

void check(const Picture& picture) {
  const auto& map = picture.get<Heatmap>();
  if (map.weights.size() == map.rows.size() * map.columns.size()) return;
  throw Error("heatmap", fmt::format("{} weights for {} rows and {} columns, expected {}",
                                     map.weights.size(), map.rows.size(), map.columns.size(),
                                     map.rows.size() * map.columns.size()));
}

std::string text(const Picture& picture, Ink ink, int width) {
  return text_of(picture.get<Heatmap>(), ink, width);
}

// librsvg fills the outlines of letters; of a font of pictures that leaves silhouettes.
Picture drawable(const Picture& picture) {
  Heatmap map = picture.get<Heatmap>();
  map.title = without_pictures(map.title);
  for (std::string& label : map.rows) label = without_pictures(label);
  for (std::string& label : map.columns) label = without_pictures(label);
  map.axes = {without_pictures(map.axes.rows), without_pictures(map.axes.columns)};
  return map;
}

Drawing drawing(std::span<const Picture> maps, Target target) {
  std::vector<Picture> plain;
  if (target == Target::png) {
    for (const Picture& map : maps) plain.push_back(drawable(map));
    maps = plain;
  }
  return drawing_of(sheet_of(maps), target);
}

// The shortest decimal that reads back as this float; NaN is written as null.
Json decimal(float weight) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, weight).ptr;
  double value = 0;
  std::from_chars(text, end, value);
  return value;
}

void put_axes(Json& to, const Heatmap::Axes& axes) {
  if (!axes.rows.empty() || !axes.columns.empty()) to["axes"] = {axes.rows, axes.columns};
}

Heatmap::Axes axes_in(const Json& json) {
  if (!json.contains("axes")) return {};
  return {json["axes"].at(0).get<std::string>(), json["axes"].at(1).get<std::string>()};
}

Json json(const Picture& picture) {
  const auto& map = picture.get<Heatmap>();
  Json weights = Json::array();
  for (size_t i = 0; i < map.rows.size(); ++i) {
    Json row = Json::array();
    for (size_t j = 0; j < map.columns.size(); ++j) {
      row.push_back(decimal(map.weights[i * map.columns.size() + j]));
    }
    weights.push_back(std::move(row));
  }
  Json json = {
      {"title", map.title}, {"rows", map.rows}, {"columns", map.columns}, {"weights", weights}};
  put_scale(json, map.scale);
  put_axes(json, map.axes);
  return json;
}

// What spreadsheets take apart by themselves.
std::string csv(std::span<const Picture> maps) {
  std::string text = kCellNames;
  for (const Picture& picture : maps) {
    const auto& m = picture.get<Heatmap>();
    for (size_t i = 0; i < m.rows.size(); ++i) {
      for (size_t j = 0; j < m.columns.size(); ++j) {
        text +=
            fmt::format("{},{},{},{},{},{}\r\n", quoted(m.title), quoted(m.rows[i]),
                        quoted(m.columns[j]), m.weights[i * m.columns.size() + j], i + 1, j + 1);
      }
    }
  }
  return text;
}

Json pack(const Picture& picture, Numbers numbers) {
  const auto& map = picture.get<Heatmap>();
  Json json = {{"title", map.title}, {"rows", map.rows}, {"columns", map.columns}};
  put_weights(json, map.weights, numbers);
  put_scale(json, map.scale);
  put_axes(json, map.axes);
  return json;
}

Picture unpack(const Json& json) {
  Heatmap map{.title = json.value("title", ""),
              .rows = json.at("rows").get<std::vector<std::string>>(),
              .columns = json.at("columns").get<std::vector<std::string>>(),
              .weights = weights_in(json),
              .scale = scale_in(json),
              .axes = axes_in(json)};
  if (std::max(map.rows.size(), map.columns.size()) > kMostLabels) {
    throw Error("draw", "a map has more than 65536 rows or columns");
  }
  return map;
}

Picture example() {
  return Heatmap{.title = "le chat",
                 .rows = {"le", "chat"},
                 .columns = {"the", "cat"},
                 .weights = {0.9f, 0.1f, 0.25f, 0.75f},
                 .axes = {"written", "read"}};
}

}  // namespace

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

extern const PictureKind picture_heatmap = {
    .name = "heatmap",
    .plural = "maps",
    .about = "Where the model looked: a row for each output, dark where its attention was.",
    .check = check,
    .text = text,
    .drawing = drawing,
    .json = json,
    .csv = csv,
    .page = add_maps,
    .pack = pack,
    .unpack = unpack,
    .titled = with_title<Heatmap>,
    .example = example,
};
const PictureKind& Heatmap::kind() { return picture_heatmap; }

}  // namespace fovea::report
