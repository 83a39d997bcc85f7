#include "tasks/caption/places.h"

#include <fmt/format.h>

#include <filesystem>

#include "fovea/error.h"
#include "io/metadata.h"
#include "tasks/room.h"

namespace fovea::tasks::captions {
namespace {

std::vector<std::string> endings_of(const std::string& name) {
  std::vector<std::string> all = {name};
  for (size_t at = name.find('/'); at != std::string::npos; at = name.find('/', at + 1)) {
    if (at + 1 < name.size()) all.push_back(name.substr(at + 1));
  }
  return all;
}

}  // namespace

void suit_places(CaptionConfig& c, const std::string& file) {
  const Tensors sketch = sketch_safetensors(file);
  if (sketch.empty()) throw Error("caption", file + " has no tensors, expected one for each image");
  const auto& [first, tensor] = *sketch.begin();
  const Shape& shape = tensor.shape();
  if (shape.size() != 3) {
    throw Error("caption", fmt::format("{}: '{}' is {}, expected [features, rows, columns]", file,
                                       first, to_string(shape)));
  }
  for (const auto& [name, other] : sketch) {
    if (other.shape() == shape) continue;
    throw Error("caption",
                fmt::format("{}: '{}' is {}, but '{}' is {}; all must be of one shape", file, first,
                            to_string(shape), name, to_string(other.shape())));
  }
  models::CaptionerConfig& m = c.network;
  m.stride = 1;
  m.channels = m.features = shape[0];
  m.height = shape[1];
  m.width = shape[2];
}

std::string places_file(const CaptionConfig& c, const std::string& asked) {
  if (asked.empty()) return c.data.places;
  if (c.data.places.empty()) {
    throw Error("caption",
                "--places belong to a model that was trained with some; this one sees "
                "the images themselves");
  }
  return asked;
}

Places::Places(const CaptionConfig& c, const std::string& file, std::span<const std::string> images)
    : file_(file) {
  const models::CaptionerConfig& m = c.network;
  check_room("caption", fmt::format("the places of {} images", images.size()),
             static_cast<int64_t>(images.size()) * m.features * m.height * m.width *
                 static_cast<int64_t>(sizeof(float)),
             "fewer images, or fewer places of each");
  std::vector<std::string> names;
  for (const std::string& image : images) {
    for (std::string& name : endings_of(image)) names.push_back(std::move(name));
  }
  found_ = load_safetensors(file, names);
  for (const auto& [name, places] : found_) {
    if (places.shape() == Shape{m.features, m.height, m.width}) continue;
    throw Error("caption",
                fmt::format("{}: '{}' is {}, expected [{}, {}, {}] as in training", file, name,
                            to_string(places.shape()), m.features, m.height, m.width));
  }
}

Tensor Places::of(const std::string& image) const {
  for (const std::string& name : endings_of(image)) {
    if (const auto it = found_.find(name); it != found_.end()) return it->second;
  }
  throw Error("caption", fmt::format("{} has no places of '{}'; they are called by the image's "
                                     "name, with its folders or without",
                                     file_, image));
}

}  // namespace fovea::tasks::captions
