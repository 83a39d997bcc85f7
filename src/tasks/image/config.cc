#include <fmt/format.h>

#include <filesystem>

#include "tasks/image/image_task.h"

namespace fovea::tasks::images {

const std::vector<Measure>& measures() {
  static const std::vector<Measure> all = {
      {"accuracy", "accuracy, %"},
      {.name = "gate", .title = "attention's gate γ", .digits = 3, .leading = false},
      {.name = "loss", .title = "loss", .better = Better::lower, .digits = 3, .leading = false},
  };
  return all;
}

void ImageConfig::visit(Fields& f) {
  f.group("Data");
  f.choice("builtin", data.builtin, "built-in images, where no folder is given", {"pairs"});
  f.integer("examples", data.examples, "how many built-in images", {40, 1e6});
  f.file("data", data.data, "a folder for each class, with PNG and JPEG files");
  f.file("test", data.test, "another such folder, to test with (default: a share)");
  f.real("valid-share", data.valid_share, "share of the images held out to validate", {0, 0.5});
  f.real("test-share", data.test_share, "share of the images held out to test", {0, 0.9});
  f.integer("height", network.height, "images are resized to so many pixels", {8, 4096});
  f.integer("width", network.width, "images are resized to so many pixels", {8, 4096});
  f.group("Model");
  f.flag("attention", network.attention, "places attend to each other before the last block");
  f.integer("heads", network.heads, "of the attention", {1, 256});
  f.integer("head-depth", network.depth, "width of a query and a key", {1, 4096});
  f.integer("features", network.features, "width of a place", {2, 4096});
  f.integer("stride", network.stride, "pixels of a place's side: 2, 4, 8, 16 or 32", {2, 32});
  f.integer("blocks", network.blocks, "residual blocks; each widens what a place sees", {1, 64});
  f.group("Regularisation");
  f.real("dropout", dropout, "of the mean of all places", {0, 0.95});
  f.real("label-smoothing", label_smoothing, "share of a class spread over the others", {0, 0.9});
  f.flag("mirror", augmentation.mirror, "half of the images are seen in a mirror");
  f.real("turn", augmentation.turn, "images are turned by up to so many degrees", {0, 180});
  f.real("zoom", augmentation.zoom, "images are made larger or smaller by up to this share",
         {0, 0.9});
  f.real("shift", augmentation.shift, "images are moved by up to this share of a side", {0, 0.5});
  f.real("light", augmentation.light, "images are made lighter or darker by up to this much",
         {0, 1});
  visit_training(f, measures());
  f.real("gate-rate", gate_rate, "times the rate, for the attention's gate", {0, 1000});
  f.integer("batch-images", train.batch_examples, "images at a step", {1, 1e6});
}

void ImageConfig::suit_data() {
  watch = "accuracy";
  train.schedule.decay = train::Decay::cosine;
  train.schedule.warmup = 50;
  train.optimizer.beta2 = 0.98f;
  train.batch_examples = 32;
  if (data.data.empty()) {
    network.heads = 4;
    network.depth = 8;
    train.epochs = 5;
    train.schedule.rate = 3e-3f;
    return;
  }
  network.height = network.width = 64;
  network.features = 64;
  network.blocks = 3;
  network.depth = 32;
  dropout = 0.2;
  augmentation = {.mirror = true, .shift = 0.08, .light = 0.1};
  train.epochs = 20;
  train.schedule.rate = 1e-3f;
  train.optimizer.method = train::Method::adamw;
  train.optimizer.weight_decay = 0.01f;
}

std::string ImageConfig::data_name() const {
  if (data.data.empty()) return data.builtin;
  std::filesystem::path path(data.data);
  if (!path.has_filename()) path = path.parent_path();
  return path.stem().string();
}

std::string ImageConfig::model() const {
  return fmt::format("{} × {} places of {}, each from {} pixels; {} residual block{}",
                     network.height / network.stride, network.width / network.stride,
                     network.features, models::reach_of(network), network.blocks,
                     network.blocks == 1 ? "" : "s");
}

std::string ImageConfig::attention() const {
  if (!network.attention) return "none";
  return fmt::format("between places, {} head{} of {}, gated", network.heads,
                     network.heads == 1 ? "" : "s", network.depth);
}

void PredictSettings::visit(Fields& f) {
  f.group("Output");
  f.integer("n-best", n_best, "print this many classes", {1, 1000000});
  f.integer("places", places, "show what this many places attend to", {0, 100});
}

}  // namespace fovea::tasks::images
