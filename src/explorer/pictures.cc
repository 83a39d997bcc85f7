#include <array>

#include "explorer/answers.h"
#include "fovea/error.h"
#include "image/image_file.h"
#include "io/base64.h"

// Images and where they were looked at, as the page gets them and gives them back. Pixels travel as
// PNG.
namespace fovea::explorer {
namespace {

constexpr image::Limits kLimits{
    .side = 4096, .pixels = int64_t{1} << 24, .bytes = int64_t{1} << 24};

image::Image pixels_from(const Json& j) {
  return image::decoded(from_base64(j.get<std::string>()), "the image", kLimits);
}

image::Image grey_from(const Json& j) { return image::with_channels(pixels_from(j), 1); }

Json density_of_others(const report::Scanpath& path) {
  if (path.others.empty()) return nullptr;
  const report::Density d = report::density_of(path);
  return {{"rows", d.rows},
          {"columns", d.columns},
          {"side", d.side},
          {"most", d.most},
          {"glimpses", d.glimpses}};
}

}  // namespace

std::string for_page(const image::Image& image) { return to_base64(image::to_png(image)); }

Json for_page(const report::SeenImage& seen) {
  Json looks = Json::array();
  for (const report::SeenImage::Look& look : seen.looks) {
    Json boxes = Json::array();
    for (const auto& b : look.boxes) boxes.push_back({b.left, b.top, b.width, b.height});
    looks.push_back({{"label", look.label}, {"cells", packed(look.weights)}, {"boxes", boxes}});
  }
  return {{"title", seen.title},
          {"image", for_page(seen.image)},
          {"height", seen.image.height},
          {"width", seen.image.width},
          {"rows", seen.rows},
          {"columns", seen.columns},
          {"looks", looks},
          {"signed", seen.scale == report::Scale::around_zero},
          {"between", packed(seen.between)}};
}

Json for_page(const report::Scanpath& path) {
  Json glimpses = Json::array(), others = Json::array();
  for (const report::Scanpath::Glimpse& g : path.glimpses) {
    Json seen = Json::array();
    for (const image::Image& one : g.seen) seen.push_back(for_page(one));
    glimpses.push_back({{"x", g.x},
                        {"y", g.y},
                        {"sides", g.sides},
                        {"said", g.said},
                        {"shares", g.shares},
                        {"seen", seen}});
  }
  for (const std::vector<report::Scanpath::Place>& way : path.others) {
    Json places = Json::array();
    for (const report::Scanpath::Place& at : way) places.push_back({at.x, at.y});
    others.push_back(places);
  }
  return {{"title", path.title},
          {"image", for_page(path.image)},
          {"height", path.image.height},
          {"width", path.image.width},
          {"classes", path.classes},
          {"glimpses", glimpses},
          {"others", others},
          {"density", density_of_others(path)}};
}

report::SeenImage seen_from(const Json& j) {
  report::SeenImage seen{.title = j.value("title", ""),
                         .image = pixels_from(j.at("image")),
                         .rows = j.at("rows").get<int64_t>(),
                         .columns = j.at("columns").get<int64_t>()};
  if (j.value("signed", false)) seen.scale = report::Scale::around_zero;
  for (const Json& look : j.at("looks")) {
    report::SeenImage::Look& l = seen.looks.emplace_back();
    l.label = look.at("label").get<std::string>();
    l.weights = unpacked(look.at("cells").get<std::string>());
    for (const Json& box : look.value("boxes", Json::array())) {
      const auto b = box.get<std::array<double, 4>>();
      l.boxes.push_back({b[0], b[1], b[2], b[3]});
    }
  }
  report::check(seen);
  return seen;
}

report::Scanpath path_from(const Json& j) {
  report::Scanpath path{.title = j.value("title", ""), .image = grey_from(j.at("image"))};
  path.classes = j.value("classes", std::vector<std::string>());
  for (const Json& glimpse : j.at("glimpses")) {
    report::Scanpath::Glimpse& g = path.glimpses.emplace_back();
    g.x = glimpse.at("x").get<double>();
    g.y = glimpse.at("y").get<double>();
    g.sides = glimpse.at("sides").get<std::vector<double>>();
    g.said = glimpse.at("said").get<std::string>();
    g.shares = glimpse.value("shares", std::vector<float>());
    for (const Json& one : glimpse.at("seen")) g.seen.push_back(grey_from(one));
  }
  for (const Json& way : j.value("others", Json::array())) {
    std::vector<report::Scanpath::Place>& places = path.others.emplace_back();
    for (const Json& at : way) {
      const auto xy = at.get<std::array<double, 2>>();
      places.push_back({xy[0], xy[1]});
    }
  }
  report::check(path);
  return path;
}

}  // namespace fovea::explorer
