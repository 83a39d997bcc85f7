#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/random.h"
#include "fovea/error.h"
#include "image/resize.h"
#include "tasks/caption/caption.h"
#include "tasks/room.h"

namespace fovea::tasks::captions {
namespace {

namespace fs = std::filesystem;

CaptionedImage captioned(Scene scene, const image::Fit& fit) {
  const image::Image image = image::resized(scene.image, fit.height, fit.width);
  CaptionedImage x{.pixels = packed(image), .captions = {scene.caption()}};
  scene.image = {};
  x.scene = std::move(scene);
  return x;
}

fs::path folder_of(const CaptionData& d, const std::string& file) {
  return d.images.empty() ? fs::path(file).parent_path() : fs::path(d.images);
}

// Where an image goes that nobody has put anywhere: by its name alone.
Side side_of(const std::string& name, const CaptionData& d, uint64_t seed) {
  const uint64_t mixed = mix64(mix64(seed) ^ hash_of(name));
  const double place = unit_open(static_cast<uint32_t>(mixed >> 32));
  if (place < d.test_share) return Side::test;
  return place < d.test_share + d.valid_share ? Side::valid : Side::train;
}

uint64_t hash_of_all(std::span<const CaptionedImage> images, uint64_t h) {
  for (const CaptionedImage& x : images) {
    h = hash_of({reinterpret_cast<const char*>(x.pixels.data()), x.pixels.size()}, h);
    for (const std::string& caption : x.captions) h = mix64(hash_of(caption, h));
  }
  return h;
}

CaptionSets make_scenes(const CaptionConfig& c) {
  CaptionSets sets;
  const auto n = c.data.examples;
  const auto share = [&](double s) {
    return static_cast<int64_t>(std::lround(s * static_cast<double>(n)));
  };
  const int64_t test = std::max<int64_t>(share(c.data.test_share), 1),
                valid = std::max<int64_t>(share(c.data.valid_share), 1);
  for (int64_t i = 0; i < n; ++i) {
    auto& set = i < test ? sets.test : i < test + valid ? sets.valid : sets.train;
    set.push_back(scene_of(c, i));
  }
  return sets;
}

CaptionedImage read_one(const ListedImage& listed, const fs::path& folder, const image::Fit& fit,
                        image::BrokenImages& broken) {
  CaptionedImage x{.name = (folder / listed.name).string(), .captions = listed.captions};
  image::Image image;
  if (broken.read(x.name, fit, image)) x.pixels = packed(image);
  return x;
}

CaptionSets read_sets(const CaptionConfig& c) {
  CaptionSets sets;
  const std::vector<ListedImage> all = read_captions(c.data.data);
  const image::Fit fit = fit_of(c);
  check_room("caption", fmt::format("{} images", all.size()),
             static_cast<int64_t>(all.size()) * fit.height * fit.width * fit.channels,
             "--height or --width");
  image::BrokenImages broken([&](const std::string& line) { sets.warnings.push_back(line); });
  for (const ListedImage& listed : all) {
    CaptionedImage x = read_one(listed, folder_of(c.data, c.data.data), fit, broken);
    if (x.pixels.empty()) continue;
    const Side side =
        listed.side == Side::any ? side_of(listed.name, c.data, c.train.seed) : listed.side;
    (side == Side::test    ? sets.test
     : side == Side::valid ? sets.valid
                           : sets.train)
        .push_back(std::move(x));
  }
  broken.finish(c.data.data);
  if (sets.train.empty() || sets.valid.empty()) {
    throw Error("caption", fmt::format("{} images to train and {} to validate; both need one or "
                                       "more, see --valid-share",
                                       sets.train.size(), sets.valid.size()));
  }
  return sets;
}

}  // namespace

image::Fit fit_of(const CaptionConfig& c) {
  return {c.network.height, c.network.width, c.network.channels};
}

CaptionedImage scene_of(const CaptionConfig& c, int64_t i) {
  CaptionedImage x = captioned(draw_scene(c.train.seed, static_cast<uint64_t>(i)), fit_of(c));
  x.name = fmt::format("scene:{}", i);
  return x;
}

CaptionSets load_data(const CaptionConfig& c) {
  CaptionSets sets = c.data.data.empty() ? make_scenes(c) : read_sets(c);
  uint64_t h = kEmptyHash;
  for (const auto* set : {&sets.train, &sets.valid, &sets.test}) h = hash_of_all(*set, mix64(h));
  sets.fingerprint = fmt::format("{:016x}", h);
  return sets;
}

std::vector<CaptionedImage> read_captioned(const CaptionConfig& c, const std::string& file) {
  std::vector<CaptionedImage> all;
  image::BrokenImages broken({});
  for (const ListedImage& listed : read_captions(file)) {
    CaptionedImage x = read_one(listed, folder_of(c.data, file), fit_of(c), broken);
    if (!x.pixels.empty()) all.push_back(std::move(x));
  }
  broken.finish(file);
  return all;
}

}  // namespace fovea::tasks::captions
