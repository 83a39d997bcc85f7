#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "tasks/glimpse/glimpse.h"
#include "tasks/mechanism_names.h"

namespace fovea::tasks::glimpsing {
namespace {

constexpr const char* kClassColumn =
    "CSV: which is the class: first, last, its number from 1, or its name (default: found)";

void visit_data(Fields& f, ImageData& d) {
  f.group("Data");
  f.choice("builtin", d.builtin, "built-in images, where none are given", {"digits"});
  f.integer("examples", d.examples, "how many built-in images", {100, 1e7});
  f.file("data", d.data, "a folder of idx files (MNIST's), or CSV; gzip too");
  f.text("class-column", d.class_column, kClassColumn);
  f.named("variant", d.placed.placing,
          "images as they are, anywhere on a canvas, or among pieces of others, too; anew in every "
          "epoch",
          image::placings());
  f.integer("canvas", d.placed.canvas, "side of the canvas; 0: the images' own", {0, 1024});
  f.integer("clutter", d.placed.pieces, "cluttered: pieces of other images", {0, 1000});
  f.integer("clutter-side", d.placed.side, "cluttered: pixels along a side of a piece", {1, 256});
  f.real("turn", d.augmentation.turn,
         "training images are turned by up to so many degrees, before they are placed", {0, 180});
  f.real("zoom", d.augmentation.zoom,
         "training images are made larger or smaller by up to this share, before they are placed",
         {0, 0.9});
  f.real("shift", d.augmentation.shift,
         "training images are moved, on their canvas, by up to this share of a side", {0, 0.5});
  f.real("valid-share", d.valid_share, "share of the training images, to validate", {0, 0.5});
  f.real("test-share", d.test_share, "share to test, where the data name no such images", {0, 0.9});
}

void visit_network(Fields& f, models::GlimpseConfig& m) {
  using models::GlimpseModel;
  f.group("Model");
  f.named(
      "model", m.model,
      "glimpses where it wants to look; all of a grid, weighed; anywhere; or all pixels at once, "
      "by two dense layers or a convolution",
      std::vector{GlimpseModel::recurrent, GlimpseModel::soft, GlimpseModel::random,
                  GlimpseModel::dense, GlimpseModel::conv});
  f.integer("glimpses", m.glimpses, "looks at an image", {1, 1000});
  f.integer("sensor", m.sensor.size, "pixels along a side of what is seen", {1, 256});
  f.integer("scales", m.sensor.scales, "patches of a glimpse, each twice as wide", {1, 8});
  f.named("cell", m.cell, "recurrent cell",
          std::vector<nn::Cell>{nn::Cell::rnn, nn::Cell::gru, nn::Cell::lstm});
  f.integer("hidden", m.hidden, "width of a glimpse, of the state, and of dense layers",
            {1, 16384});
  f.integer("parts", m.parts,
            "width of the layers for what is seen and for where, before they are joined",
            {1, 16384});
  f.integer("locator", m.locator, "width of the layer that decides where to look", {1, 16384});
  f.real("sigma", m.sigma,
         "standard deviation of a look around its place; images reach from −1 to 1", {1e-4, 10});
  f.integer("grid", m.grid, "soft: places along a side", {1, 64});
  f.choice("score", m.score, "soft: how places are compared", names_of(list_scores()));
  f.choice("weighting", m.weighting, "soft: softmax sums to 1, sigmoid need not",
           names_of(list_weightings()));
  m.longest_source = m.grid * m.grid;
}

}  // namespace

const std::vector<Measure>& measures() {
  static const std::vector<Measure> all = {
      {"error", "error, %", Better::lower},
      {"accuracy", "accuracy, %"},
      {.name = "loss", .title = "loss", .better = Better::lower, .digits = 3, .leading = false},
  };
  return all;
}

void Config::visit(Fields& f) {
  visit_data(f, data);
  visit_network(f, network);
  f.group("Learning where to look");
  f.real(
      "sigma-start", sigma_start,
      "--sigma when training begins, at least --sigma, to which it falls by equal factors; 0: it "
      "does not fall",
      {0, 10});
  f.integer("copies", loss.copies, "sampled paths of each image in a batch", {1, 1000});
  f.real("reward-weight", loss.reward, "weight of the REINFORCE term", {0, 1e3});
  f.named("prize", loss.prize, "reward of an answer: 1 where it is right, or its probability",
          std::vector{models::Prize::right, models::Prize::likely});
  f.named("rewarded", loss.rewarded,
          "a look is rewarded for the last answer, or for every answer after it",
          std::vector{models::Rewarded::last, models::Rewarded::each});
  f.real("discount", loss.discount, "each: how much a later answer counts", {0, 1});
  f.real("locator-rate", locator_rate, "times the rate, for what decides where to look", {0, 1000});
  f.real("early", loss.early, "weight of the loss of answers before the last glimpse", {0, 1e3});
  f.integer("passes", passes,
            "average the answers of so many sampled paths; 1: one path, not sampled", {1, 1000});
  visit_training(f, measures());
  f.integer("batch-images", train.batch_examples, "images of a step", {1, 1e6});
}

float sigma_at(const Config& c, double done) {
  const auto end = static_cast<double>(c.network.sigma);
  return static_cast<float>(c.sigma_start > 0 ? c.sigma_start * std::pow(end / c.sigma_start, done)
                                              : end);
}

void Config::suit_data() {
  using image::Placing;
  watch = "error";
  train.optimizer.method = train::Method::adam;
  train.schedule.decay = train::Decay::cosine;
  train.schedule.warmup = 100;
  train.batch_examples = 64;
  train.clip = 5.0f;
  // Of a digit in the middle the first glimpse tells nearly all. Built-in digits lie anywhere,
  // where nobody says otherwise, so that it pays to look further.
  const bool shown = data.placed.placing == Placing::unsaid && data.data.empty();
  if (shown) data.placed.placing = Placing::anywhere;
  if (data.placed.placing == Placing::unsaid) data.placed.placing = Placing::plain;
  const bool plain = data.placed.placing == Placing::plain;
  network.sensor = plain   ? models::Sensor{8, 1}
                   : shown ? models::Sensor{8, 3}
                           : models::Sensor{12, 3};
  if (!plain && data.placed.canvas == 0) data.placed.canvas = shown ? 48 : 60;
  if (data.placed.canvas >= 100) network.sensor.scales = 4;
  network.glimpses = plain || shown ? 6 : 8;
  network.cell = nn::Cell::lstm;
  network.sigma = 0.15f;
  loss.prize = models::Prize::likely;
  loss.rewarded = models::Rewarded::each;
  loss.reward = 1.0f;
  loss.early = 0.5f;
  if (data.data.empty()) {
    train.schedule.rate = 4e-3f;
  } else {
    // Digits anywhere are wrong in 2.8 % after twelve epochs; by batches of 128, a rate of 1e-3 and
    // no average in 4.0.
    train.schedule.rate = 1.5e-3f;
    train.average = 0.999f;
    if (plain) data.augmentation.shift = 0.08;
  }
  train.epochs = data.data.empty() ? 8 : 30;
  if (!plain && !shown) train.epochs *= 3;
}

std::string Config::data_name() const {
  if (data.data.empty()) return data.builtin;
  std::filesystem::path path(data.data);
  if (!path.has_filename()) path = path.parent_path();
  return path.stem().string();
}

std::string Config::model() const {
  const models::GlimpseConfig& m = network;
  if (!models::glimpses(m)) return fmt::format("{} {}", name_of(m.model), m.hidden);
  return fmt::format("{} {} {}, {} glimpses of {} × {} × {}", name_of(m.model), name_of(m.cell),
                     m.hidden, m.glimpses, m.sensor.size, m.sensor.size, m.sensor.scales);
}

std::string Config::attention() const {
  switch (network.model) {
    case models::GlimpseModel::recurrent:
      return sigma_start > 0
                 ? fmt::format("places chosen, σ {:g} to {:g}", sigma_start, network.sigma)
                 : fmt::format("places chosen, σ {:g}", network.sigma);
    case models::GlimpseModel::soft:
      return fmt::format("{0} × {0} places, {1}, {2}", network.grid, network.score,
                         network.weighting);
    case models::GlimpseModel::random:
      return "places at random";
    default:
      return "none, all pixels";
  }
}

void EvaluateSettings::visit(Fields& f) {
  f.group("Looking");
  f.integer("passes", passes, "average the answers of so many sampled paths; 0: as it was trained",
            {0, 1000});
  f.text("class-column", class_column, kClassColumn);
}

void PredictSettings::visit(Fields& f) {
  f.group("Looking");
  f.integer("passes", passes, "average the answers of so many sampled paths; 0: as it was trained",
            {0, 1000});
  f.integer("n-best", n_best, "print this many classes", {1, 1000000});
  f.integer("ways", ways, "sample so many paths and show them as density", {0, 1000});
  f.text("class-column", class_column, kClassColumn);
}

}  // namespace fovea::tasks::glimpsing
