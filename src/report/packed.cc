#include "report/packed.h"

#include <cmath>
#include <cstring>

#include "fovea/error.h"
#include "image/image_file.h"
#include "io/base64.h"

namespace fovea::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostCells = size_t{1} << 24;
constexpr image::Limits kPixels{
    .side = 4096, .pixels = int64_t{1} << 24, .bytes = int64_t{1} << 24};

}  // namespace

Json packed(const Picture& p) {
  Json json = {{"kind", p.kind().name}};
  json.update(p.kind().pack(p, Numbers::exact));
  return json;
}

Picture unpacked(const Json& json) {
  return picture_kind(json.at("kind").get<std::string>()).unpack(json);
}

void put_weights(Json& to, const std::vector<float>& weights, Numbers numbers) {
  if (numbers == Numbers::exact) {
    to["cells"] =
        to_base64({reinterpret_cast<const char*>(weights.data()), weights.size() * sizeof(float)});
    return;
  }
  Json& some = to["weights"] = Json::array();
  for (const float w : weights) some.push_back(std::round(1e4 * static_cast<double>(w)) / 1e4);
}

std::vector<float> weights_in(const Json& json) {
  if (!json.contains("cells")) return json.at("weights").get<std::vector<float>>();
  const std::string bytes = from_base64(json.at("cells").get<std::string>());
  if (bytes.size() % sizeof(float) != 0 || bytes.size() / sizeof(float) > kMostCells) {
    throw Error("draw", "the weights are no numbers of 32 bits, or too many");
  }
  std::vector<float> weights(bytes.size() / sizeof(float));
  std::memcpy(weights.data(), bytes.data(), bytes.size());
  return weights;
}

void put_scale(Json& to, Scale scale) {
  if (scale == Scale::around_zero) to["signed"] = true;
}

Scale scale_in(const Json& json) {
  return json.value("signed", false) ? Scale::around_zero : Scale::from_zero;
}

std::string packed(const image::Image& image) { return to_base64(image::to_png(image)); }

image::Image image_in(const std::string& text) {
  return image::decoded(from_base64(text), "the image", kPixels);
}

}  // namespace fovea::report
