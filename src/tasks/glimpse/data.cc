#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/random.h"
#include "fovea/error.h"
#include "image/csv.h"
#include "image/digits.h"
#include "image/idx.h"
#include "image/image_file.h"
#include "image/resize.h"
#include "io/json.h"
#include "tasks/classes.h"
#include "tasks/glimpse/glimpse.h"

namespace fovea::tasks::glimpsing {
namespace {

namespace fs = std::filesystem;
using image::Image;
using image::LabelledImage;
using image::LabelledImages;

// NAME, NAME.gz, and both with a dot where MNIST's names are written with one.
fs::path find_idx(const fs::path& folder, const std::string& what, const std::string& kind) {
  for (const char* dot : {"-", "."}) {
    for (const char* ending : {"", ".gz"}) {
      fs::path file = folder / fmt::format("{}{}{}-ubyte{}", what, dot, kind, ending);
      if (fs::exists(file)) return file;
    }
  }
  return {};
}

// Both files of a set, or nothing where neither is there.
LabelledImages read_set(const fs::path& folder, const std::string& set) {
  const fs::path images = find_idx(folder, set + "-images", "idx3");
  const fs::path labels = find_idx(folder, set + "-labels", "idx1");
  if (images.empty() && labels.empty()) return {};
  if (images.empty() || labels.empty()) {
    throw Error("glimpse", fmt::format("{}: there is {}, but no {}-{}", folder.string(),
                                       (images.empty() ? labels : images).filename().string(), set,
                                       images.empty() ? "images-idx3-ubyte" : "labels-idx1-ubyte"));
  }
  return image::read_idx(images, labels);
}

// A share of the images, the same ones whatever the seed.
std::vector<LabelledImage> take_share(std::vector<LabelledImage>& from, double share,
                                      std::string_view what) {
  std::vector<size_t> order(from.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto place = [&](size_t i) { return mix64(hash_of(what) ^ mix64(i)); };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return place(a) < place(b); });
  order.resize(static_cast<size_t>(std::lround(share * static_cast<double>(from.size()))));
  std::sort(order.begin(), order.end());
  std::vector<LabelledImage> taken, rest;
  size_t next = 0;
  for (size_t i = 0; i < from.size(); ++i) {
    const bool take = next < order.size() && order[next] == i;
    next += take;
    (take ? taken : rest).push_back(std::move(from[i]));
  }
  from = std::move(rest);
  return taken;
}

uint64_t hash_of_all(std::span<const LabelledImage> images, uint64_t h) {
  std::string bytes;
  for (const LabelledImage& one : images) {
    bytes.assign(1, static_cast<char>(one.label));
    for (const float v : one.image.pixels) bytes += static_cast<char>(std::lround(255.0f * v));
    h = mix64(hash_of(bytes, h));
  }
  return h;
}

void expect_one_size(const Sets& sets) {
  const Image& first = sets.train.front().image;
  for (const auto* set : {&sets.train, &sets.valid, &sets.test}) {
    for (const LabelledImage& one : *set) {
      if (one.image.height == first.height && one.image.width == first.width) continue;
      throw Error("glimpse",
                  fmt::format("images of {} × {} and of {} × {}; all must be of one size",
                              first.height, first.width, one.image.height, one.image.width));
    }
  }
}

Sets read_or_draw(const ImageData& d, uint64_t seed) {
  Sets sets;
  LabelledImages all, test;
  if (d.data.empty()) {
    all = image::draw_digits(seed, d.examples);
  } else if (fs::is_directory(d.data)) {
    all = read_set(d.data, "train");
    test = read_set(d.data, "t10k");
    if (all.images.empty()) {
      throw Error("glimpse", fmt::format("{}: there is no train-images-idx3-ubyte with its labels "
                                         "(.gz too); MNIST's four files go there as they are. "
                                         "Folders of PNG and JPEG files are for fovea train image",
                                         d.data));
    }
  } else if (image::is_idx(d.data)) {
    throw Error("glimpse",
                fmt::format("{} has no classes: name the folder of the idx files", d.data));
  } else {
    image::CsvImages read = image::read_csv(d.data, d.class_column);
    sets.class_column = read.class_column;
    all = std::move(read);
  }
  sets.classes = all.classes.size() >= test.classes.size() ? all.classes : test.classes;
  sets.train = std::move(all.images);
  sets.test = std::move(test.images);
  return sets;
}

void place_at(const ImageData& d, const Image& image, std::span<const LabelledImage> others,
              uint64_t seed, std::span<float> canvas, int64_t side) {
  image::PlacedConfig placed = d.placed;
  placed.canvas = side;
  image::place(placed, image, others, seed, canvas);
}

uint64_t seed_of_held_out(int64_t which) {
  return mix64(hash_of("held out") ^ mix64(static_cast<uint64_t>(which)));
}

// draw(i, canvas) writes the i-th of n.
template <class Draw>
Tensor batch(int64_t n, int64_t side, const Draw& draw) {
  Tensor all = Tensor::empty({n, side, side}, DType::f32, Device::cpu);
  float* to = all.mutable_data<float>();
  for (int64_t i = 0; i < n; ++i) {
    draw(i, std::span(to + i * side * side, static_cast<size_t>(side * side)));
  }
  return all.to(default_device());
}

}  // namespace

Sets load_data(const ImageData& d, uint64_t seed) {
  Sets sets = read_or_draw(d, seed);
  if (sets.test.empty()) sets.test = take_share(sets.train, d.test_share, "test");
  sets.valid = take_share(sets.train, d.valid_share, "valid");
  std::map<std::string, int64_t> count;
  for (const LabelledImage& one : sets.train) ++count[std::to_string(one.label)];
  expect_two_classes(count, "glimpse", "images",
                     sets.class_column.empty()
                         ? "add images of another"
                         : fmt::format("add images of another, or say by --class-column where the "
                                       "class stands; it was looked for in the {} column",
                                       sets.class_column));
  if (sets.train.empty() || sets.valid.empty()) {
    throw Error("glimpse",
                fmt::format("{} images to train and {} to validate; both are needed, see "
                            "--valid-share",
                            sets.train.size(), sets.valid.size()));
  }
  expect_one_size(sets);
  uint64_t h = kEmptyHash;
  for (const auto* set : {&sets.train, &sets.valid, &sets.test}) h = hash_of_all(*set, h);
  sets.fingerprint = fmt::format("{:016x}", h);
  return sets;
}

Known known_of(const Sets& sets, const ImageData& d) {
  return {sets.classes, image::canvas_of(d.placed, sets.train.front().image)};
}

void save(const Known& known, const RunFolder& run) {
  write_json(run / kKnownFile, {{"classes", known.classes}, {"side", known.side}});
}

Known load_known(const RunFolder& run) {
  const std::string file = (run / kKnownFile).string();
  const nlohmann::ordered_json j = read_json(file);
  const bool list = j.is_object() && j.contains("classes") && j["classes"].is_array() &&
                    std::all_of(j["classes"].begin(), j["classes"].end(),
                                [](const auto& name) { return name.is_string(); });
  if (!list || j["classes"].empty() || !j.contains("side") || !j["side"].is_number_integer() ||
      j["side"] < 1 || j["side"] > 4096) {
    throw Error("glimpse", file + ": expected classes, a list of names, and a side from 1 to 4096");
  }
  return {j["classes"].get<std::vector<std::string>>(), whole_number(j["side"])};
}

Tensor held_out_batch(const ImageData& d, std::span<const LabelledImage> images,
                      std::span<const int64_t> which, int64_t side) {
  return batch(std::ssize(which), side, [&](int64_t i, std::span<float> canvas) {
    const int64_t at = which[static_cast<size_t>(i)];
    place_at(d, images[static_cast<size_t>(at)].image, images, seed_of_held_out(at), canvas, side);
  });
}

// Turned and resized, placed, and moved with all that lies on the canvas.
Tensor training_batch(const ImageData& d, std::span<const LabelledImage> images,
                      std::span<const int64_t> which, int64_t side, uint64_t seed) {
  const image::Augmentation before{.turn = d.augmentation.turn, .zoom = d.augmentation.zoom};
  const image::Augmentation after{.shift = d.augmentation.shift};
  return batch(std::ssize(which), side, [&](int64_t i, std::span<float> canvas) {
    const uint64_t own = Seed(seed).at("augmentation").at(i).value();
    const uint64_t where = Seed(seed).at("placed").at(i).value();
    const Image& given = images[static_cast<size_t>(which[static_cast<size_t>(i)])].image;
    place_at(d, before.any() ? image::augmented(given, before, own) : given, images, where, canvas,
             side);
    if (!after.any()) return;
    const Image whole{side, side, 1, {canvas.begin(), canvas.end()}};
    std::ranges::copy(image::augmented(whole, after, own).pixels, canvas.begin());
  });
}

Tensor classes_of(std::span<const LabelledImage> images, std::span<const int64_t> which) {
  std::vector<int64_t> classes;
  for (const int64_t i : which) classes.push_back(images[static_cast<size_t>(i)].label);
  return Tensor::from_ids(classes, {static_cast<int64_t>(classes.size())});
}

Image placed_image(const Input& input, const ImageData& d, const Known& known,
                   const std::function<const Sets&()>& sets) {
  const int64_t side = known.side;
  const auto canvas = [&](std::span<const LabelledImage> images, const ImageData& how, int64_t n) {
    Image made{side, side, 1, std::vector<float>(static_cast<size_t>(side * side))};
    place_at(how, images[static_cast<size_t>(n)].image, images, seed_of_held_out(n), made.pixels,
             side);
    return made;
  };
  if (const auto* picture = std::get_if<GivenImage>(&input)) {
    Image grey = image::with_channels(picture->image, 1);
    if (picture->kind == GivenImage::Kind::photo) grey = image::fitted(grey, side, side);
    const std::vector<LabelledImage> one = {{std::move(grey), 0, picture->name}};
    ImageData middle = d;
    middle.placed.placing = image::Placing::plain;
    return canvas(one, middle, 0);
  }
  const Own& own = own_of(input);
  const std::optional<Set> set = set_of(own);
  if (!set) throw Error("predict", fmt::format("'{}' is none of this run's", name_of(input)));
  const std::vector<LabelledImage>& all = *set == Set::train   ? sets().train
                                          : *set == Set::valid ? sets().valid
                                                               : sets().test;
  return canvas(all, d, static_cast<int64_t>(index_of(own, all.size())));
}

}  // namespace fovea::tasks::glimpsing
