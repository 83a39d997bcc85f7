#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/random.h"
#include "fovea/error.h"
#include "io/json.h"
#include "tasks/classes.h"
#include "tasks/image/image_task.h"
#include "tasks/image/pairs.h"
#include "tasks/room.h"

namespace fovea::tasks::images {
namespace {

uint64_t hash_of_all(std::span<const PackedExample> examples, uint64_t h) {
  for (const PackedExample& x : examples) {
    h = hash_of({reinterpret_cast<const char*>(x.pixels.data()), x.pixels.size()}, h);
    h = mix64(h ^ static_cast<uint64_t>(x.label));
  }
  return h;
}

std::vector<PackedExample> packed_all(const image::LabelledImages& read) {
  std::vector<PackedExample> all;
  for (const image::LabelledImage& x : read.images)
    all.push_back({packed(x.image), x.label, x.name});
  return all;
}

void check_room_for(const ImageConfig& c, const std::string& folder) {
  const image::Fit fit = fit_of(c);
  const int64_t n = image::count_images(folder);
  // Floats while they are read, bytes from then on.
  check_room("image", fmt::format("{} images", n), 5 * n * fit.height * fit.width * fit.channels,
             "--height or --width");
}

// In a random order, each class by itself, so that every set has its share of each.
void split(std::vector<PackedExample> all, const ImageConfig& c, ImageSets& sets) {
  std::vector<std::vector<size_t>> by_class(sets.classes.size());
  for (size_t i = 0; i < all.size(); ++i) {
    by_class[static_cast<size_t>(all[i].label)].push_back(i);
  }
  for (std::vector<size_t>& some : by_class) {
    const auto order = [&](size_t i) {
      return mix64(mix64(c.train.seed) ^ mix64(static_cast<uint64_t>(i)));
    };
    std::sort(some.begin(), some.end(), [&](size_t a, size_t b) { return order(a) < order(b); });
    const auto n = static_cast<double>(some.size());
    const double test = c.data.test.empty() ? c.data.test_share : 0;
    for (size_t k = 0; k < some.size(); ++k) {
      const double place = (static_cast<double>(k) + 0.5) / n;
      auto& set = place < test                        ? sets.test
                  : place < test + c.data.valid_share ? sets.valid
                                                      : sets.train;
      set.push_back(std::move(all[some[k]]));
    }
  }
}

}  // namespace

image::Fit fit_of(const ImageConfig& c) {
  return {c.network.height, c.network.width, c.network.channels};
}

PackedExample pair_of(const ImageConfig& c, int64_t i) {
  const image::LabelledImage x = draw_pair(c.train.seed, static_cast<uint64_t>(i));
  const image::Fit fit = fit_of(c);
  return {packed(image::resized(x.image, fit.height, fit.width)), x.label,
          fmt::format("pair:{}", i)};
}

ImageSets load_data(const ImageConfig& c) {
  ImageSets sets;
  std::vector<PackedExample> all;
  const image::Warn warn = image::keep_in(sets.warnings);
  if (c.data.data.empty()) {
    sets.classes = {"different", "same"};
    for (int64_t i = 0; i < c.data.examples; ++i) all.push_back(pair_of(c, i));
  } else {
    check_room_for(c, c.data.data);
    const image::LabelledImages read = image::read_class_folders(c.data.data, fit_of(c), warn);
    sets.classes = read.classes;
    all = packed_all(read);
  }
  split(std::move(all), c, sets);
  if (!c.data.test.empty()) sets.test = read_examples(c, sets.classes, c.data.test, warn);
  std::map<std::string, int64_t> count;
  for (const PackedExample& x : sets.train) ++count[sets.classes[static_cast<size_t>(x.label)]];
  expect_two_classes(count, "image", "images", "each folder of " + c.data.data + " is a class");
  if (sets.train.empty() || sets.valid.empty()) {
    throw Error("image", fmt::format("{} images to train and {} to validate; both need one or "
                                     "more, see --valid-share",
                                     sets.train.size(), sets.valid.size()));
  }
  uint64_t h = kEmptyHash;
  for (const auto* set : {&sets.train, &sets.valid, &sets.test}) h = hash_of_all(*set, mix64(h));
  sets.fingerprint = fmt::format("{:016x}", h);
  return sets;
}

std::vector<PackedExample> read_examples(const ImageConfig& c,
                                         const std::vector<std::string>& classes,
                                         const std::string& folder, const image::Warn& warn) {
  check_room_for(c, folder);
  const image::LabelledImages read = image::read_class_folders(folder, fit_of(c), warn);
  const std::vector<int64_t> known = places_of_classes(read.classes, classes, "image", folder);
  std::vector<PackedExample> all = packed_all(read);
  for (PackedExample& x : all) x.label = known[static_cast<size_t>(x.label)];
  return all;
}

void save_classes(const std::vector<std::string>& classes, const RunFolder& run) {
  write_json(run / kClassesFile, {{"classes", classes}});
}

std::vector<std::string> load_classes(const RunFolder& run) {
  const std::string file = (run / kClassesFile).string();
  const nlohmann::ordered_json j = read_json(file);
  std::vector<std::string> classes;
  const bool listed = j.is_object() && j.contains("classes") && j["classes"].is_array();
  if (listed) {
    for (const auto& name : j["classes"]) {
      if (name.is_string()) classes.push_back(name.get<std::string>());
    }
  }
  if (!listed || classes.empty() || classes.size() != j["classes"].size()) {
    throw Error("image", file + ": expected {\"classes\": [names]}");
  }
  return classes;
}

}  // namespace fovea::tasks::images
