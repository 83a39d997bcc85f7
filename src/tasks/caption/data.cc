#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/random.h"
#include "fovea/error.h"
#include "image/resize.h"
#include "tasks/caption/places.h"
#include "tasks/caption/seer.h"
#include "tasks/room.h"

namespace fovea::tasks::captions {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kShown = 224;  // pixels of a side, about, of an image whose places are given

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

uint64_t hash_of_all(std::span<const CaptionedImage> images, uint64_t h, bool of_places) {
  for (const CaptionedImage& x : images) {
    h = hash_of({reinterpret_cast<const char*>(x.pixels.data()), x.pixels.size()}, h);
    if (x.places && of_places) {
      const std::vector<float> all = x.places.to_vector();
      h = hash_of({reinterpret_cast<const char*>(all.data()), all.size() * sizeof(float)}, h);
    }
    for (const std::string& caption : x.captions) h = mix64(hash_of(caption, h));
  }
  return h;
}

// What an encoder makes of images, from the run's own file where it was kept.
class Seen {
 public:
  Seen(const CaptionConfig& c, const Seer* seer, std::span<const std::string> names)
      : config_(c), seer_(seer) {
    if (seer_ == nullptr) return;
    if (!c.data.seen.empty()) {
      kept_ = Places(c, c.data.seen, names);
      return;
    }
    const models::CaptionerConfig& m = c.network;
    check_room("caption", fmt::format("the places of {} images", names.size()),
               static_cast<int64_t>(names.size()) * m.features * m.height * m.width *
                   static_cast<int64_t>(sizeof(float)),
               "fewer images, or an encoder with fewer places");
  }
  void add_to(CaptionedImage& x) const {
    if (seer_ == nullptr) return;
    if (kept_) {
      x.places = kept_->of(x.key);
    } else {
      see(config_, *seer_, x);
    }
  }

 private:
  const CaptionConfig& config_;
  const Seer* seer_;
  std::optional<Places> kept_;
};

CaptionSets make_scenes(const CaptionConfig& c, const Seer* seer) {
  CaptionSets sets;
  const auto n = c.data.examples;
  std::vector<std::string> names;
  for (int64_t i = 0; i < n; ++i) names.push_back(fmt::format("scene:{}", i));
  const Seen seen(c, seer, names);
  const auto share = [&](double s) {
    return static_cast<int64_t>(std::lround(s * static_cast<double>(n)));
  };
  const int64_t test = std::max<int64_t>(share(c.data.test_share), 1),
                valid = std::max<int64_t>(share(c.data.valid_share), 1);
  for (int64_t i = 0; i < n; ++i) {
    auto& set = i < test ? sets.test : i < test + valid ? sets.valid : sets.train;
    set.push_back(scene_of(c, i));
    seen.add_to(set.back());
  }
  return sets;
}

// A file of captions, its images read as they are asked for.
class Reading {
 public:
  Reading(const CaptionConfig& c, const std::string& file, const std::string& places,
          const Seer* seer, const image::Warn& warn)
      : file_(file),
        all_(read_captions(file)),
        folder_(folder_of(c.data, file)),
        fit_(fit_of(c)),
        broken_(warn),
        given_(!places.empty()),
        seen_(c, seer, names()) {
    if (given_) places_ = Places(c, places, names());
    check_room("caption", fmt::format("{} images", all_.size()),
               static_cast<int64_t>(all_.size()) * fit_.height * fit_.width * fit_.channels,
               "--height or --width");
  }

  // use(listed, image) for each that is not broken.
  template <class Use>
  void each(const Use& use) {
    for (const ListedImage& listed : all_) {
      CaptionedImage x{.name = (folder_ / listed.name).string(),
                       .key = listed.name,
                       .captions = listed.captions};
      const bool whole = broken_.read([&] {
        x.pixels = packed(image::read_fitted(x.name, fit_));
        if (given_) x.places = places_.of(listed.name);
        seen_.add_to(x);
      });
      if (whole) use(listed, std::move(x));
    }
    broken_.finish(file_);
  }

 private:
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const ListedImage& listed : all_) all.push_back(listed.name);
    return all;
  }

  std::string file_;
  std::vector<ListedImage> all_;
  fs::path folder_;
  image::Fit fit_;
  image::BrokenImages broken_;
  bool given_;
  Places places_;
  Seen seen_;
};

CaptionSets read_sets(const CaptionConfig& c, const Seer* seer) {
  CaptionSets sets;
  Reading reading(c, c.data.data, c.data.places, seer, image::keep_in(sets.warnings));
  reading.each([&](const ListedImage& listed, CaptionedImage x) {
    const Side side =
        listed.side == Side::any ? side_of(listed.name, c.data, c.train.seed) : listed.side;
    (side == Side::test    ? sets.test
     : side == Side::valid ? sets.valid
                           : sets.train)
        .push_back(std::move(x));
  });
  if (sets.train.empty() || sets.valid.empty()) {
    throw Error("caption", fmt::format("{} images to train and {} to validate; both need one or "
                                       "more, see --valid-share",
                                       sets.train.size(), sets.valid.size()));
  }
  return sets;
}

}  // namespace

image::Fit fit_of(const CaptionConfig& c) {
  const models::CaptionerConfig& m = c.network;
  if (convolves(c)) return {m.height, m.width, m.channels};
  const int64_t place = std::max<int64_t>(1, kShown / std::max(m.height, m.width));
  return {m.height * place, m.width * place, 3};
}

CaptionedImage scene_of(const CaptionConfig& c, int64_t i) {
  CaptionedImage x = captioned(draw_scene(c.train.seed, static_cast<uint64_t>(i)), fit_of(c));
  x.name = x.key = fmt::format("scene:{}", i);
  return x;
}

CaptionSets load_data(const CaptionConfig& c, const Seer* seer) {
  CaptionSets sets = c.data.data.empty() ? make_scenes(c, seer) : read_sets(c, seer);
  uint64_t h = kEmptyHash;
  for (const auto* set : {&sets.train, &sets.valid, &sets.test}) {
    h = hash_of_all(*set, mix64(h), c.data.encoder.empty());
  }
  sets.fingerprint = fmt::format("{:016x}", h);
  return sets;
}

std::vector<CaptionedImage> read_captioned(const CaptionModel& m, const std::string& file,
                                           const std::string& places, const image::Warn& warn) {
  std::vector<CaptionedImage> all;
  CaptionConfig c = m.config;
  c.data.seen.clear();  // it has the training's images alone
  Reading(c, file, places_file(c, places), m.seer.get(), warn)
      .each([&](const ListedImage&, CaptionedImage x) { all.push_back(std::move(x)); });
  return all;
}

}  // namespace fovea::tasks::captions
