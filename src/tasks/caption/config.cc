#include <fmt/format.h>

#include <filesystem>

#include "tasks/caption/caption.h"
#include "tasks/decoder_fields.h"
#include "tasks/mechanism_names.h"

namespace fovea::tasks::captions {
namespace {

void visit_data(Fields& f, CaptionConfig& c) {
  CaptionData& d = c.data;
  f.group("Data");
  f.choice("builtin", d.builtin, "built-in images, where no file is given", {"scenes"});
  f.integer("examples", d.examples, "how many built-in images", {20, 1e6});
  f.file("data", d.data, "TSV (image, caption), Flickr's token file, COCO's or Karpathy's JSON");
  f.file("images", d.images, "the folder of its images (default: the file's own)");
  f.file("places", d.places,
         "safetensors, [features, rows, columns] by each image's name: what another network made "
         "of it; nothing is convolved then, and the sizes are the file's");
  f.file(
      "encoder", d.encoder,
      "the folder of a ViT or DeiT, which sees the images in place of a convolution: it stays as "
      "it is, and what it makes of them is kept in the run");
  f.real("valid-share", d.valid_share, "share of the images held out to validate", {0, 0.5});
  f.real("test-share", d.test_share, "share of the images held out to test", {0, 0.9});
  f.integer("height", c.network.height, "images are resized to so many pixels", {1, 4096});
  f.integer("width", c.network.width, "images are resized to so many pixels", {1, 4096});
  f.integer("vocab", c.words.size, "words of the vocabulary, at most", {5, 1e6});
  f.integer("min-count", c.words.min_count, "rarer words are unknown", {1, 1e6});
}

void visit_network(Fields& f, models::CaptionerConfig& m) {
  using namespace models;
  f.group("Model");
  f.named("context", m.context, "one vector for the whole image, or attention at each word",
          std::vector<Context>{Context::fixed, Context::attention});
  f.named("order", m.order, "bahdanau (and the paper) looks before the cell, luong after",
          std::vector<Order>{Order::bahdanau, Order::luong});
  f.flag("input-feeding", m.input_feeding, "luong: the last output enters the cell");
  f.choice("score", m.score, "how a state is compared with a place", names_of(list_scores()));
  f.choice("weighting", m.weighting, "softmax is soft attention, sample hard",
           names_of(list_weightings()));
  f.flag("gate", m.gate, "multiply what is seen by a learned gate β_t");
  f.real("doubly", m.doubly, "λ of λ Σ (1 − Σ_t a_t)²: every place gets its share", {0, 1e3});
  f.integer("features", m.features, "width of a place", {2, 16384});
  f.integer("stride", m.stride, "pixels of a place's side: 2, 4, 8, 16 or 32", {1, 32});
  f.integer("depth", m.depth, "convolutions at the grid's own size; each widens what a place sees",
            {0, 32});
  f.named("cell", m.cell, "recurrent cell",
          std::vector<nn::Cell>{nn::Cell::rnn, nn::Cell::gru, nn::Cell::lstm});
  f.integer("embedding", m.embedding, "width of a word's vector", {1, 16384});
  f.integer("hidden", m.hidden, "width of a state", {1, 16384});
  f.integer("layers", m.layers, "recurrent layers", {1, 64});
  f.integer("longest", m.longest_caption, "words of a caption, at most", {1, 10000});
}

}  // namespace

const std::vector<Measure>& measures() {
  static const std::vector<Measure> all = {
      {"bleu4", "BLEU-4"},
      {"pointing", "pointing, %"},
      {"exact", "exact match"},
      {.name = "bleu1", .title = "BLEU-1", .leading = false},
      {.name = "bleu2", .title = "BLEU-2", .leading = false},
      {.name = "bleu3", .title = "BLEU-3", .leading = false},
      {.name = "loss", .title = "loss", .better = Better::lower, .digits = 3, .leading = false},
  };
  return all;
}

void CaptionConfig::visit(Fields& f) {
  visit_data(f, *this);
  visit_network(f, network);
  visit_writer_loss(f, loss, "of places, words, and before the output", "images");
  visit_training(f, measures());
  f.integer("batch-images", train.batch_examples, "images with a caption each", {1, 1e6});
  f.flag("like-lengths", train.like_lengths,
         "batches of captions of like lengths, which are faster; not where places are convolved, "
         "which normalises them by their batch");
  f.integer("valid-images", valid_images, "captioned at each validation", {0, 1e6});
  f.integer("beam", beam, "of the final scores", {1, models::kLargestBeam});
}

void CaptionConfig::suit_data() {
  train.schedule.decay = train::Decay::cosine;
  train.schedule.warmup = 50;
  train.optimizer.beta2 = 0.98f;
  network.gate = network.context == models::Context::attention;
  train.like_lengths = !convolves(*this) && network.depth == 0;
  if (data.data.empty()) {
    network.embedding = 32;
    network.hidden = 128;
    network.features = 64;
    network.stride = 4;
    network.depth = convolves(*this) ? 1 : 0;
    network.order = models::Order::luong;
    network.input_feeding = looks(*this);
    loss.entropy = 0;  // a bonus for looks that are undecided keeps it from learning how many
    data.valid_share = 0.03;
    data.test_share = 0.05;
    train.epochs = 6;
    train.schedule.rate = 2e-3f;
    train.batch_examples = 32;
    return;
  }
  network.height = network.width = 128;
  network.stride = 8;
  network.features = 128;
  network.depth = convolves(*this) ? 2 : 0;
  network.embedding = 192;
  network.hidden = 256;
  network.doubly = 1.0f;
  words.min_count = 3;
  loss.dropout = 0.3f;
  train.epochs = 20;
  train.schedule.rate = 1e-3f;
  train.schedule.warmup = 200;
  train.batch_examples = 32;
}

std::string CaptionConfig::data_name() const {
  return data.data.empty() ? data.builtin : std::filesystem::path(data.data).stem().string();
}

std::string CaptionConfig::model() const {
  const models::CaptionerConfig& m = network;
  const std::string from = convolves(*this)
                               ? fmt::format("each from {} pixels", models::reach_of(m))
                           : data.encoder.empty() ? "given"
                                                  : "of " + data.encoder;
  return fmt::format("{} × {} places of {}, {}; {} {}, {} layer{}", models::rows_of(m),
                     models::columns_of(m), m.features, from, name_of(m.cell), m.hidden, m.layers,
                     m.layers == 1 ? "" : "s");
}

std::string CaptionConfig::attention() const {
  if (!looks(*this)) return "none, one vector for the image";
  return fmt::format(
      "{}, {}{}{}", network.score, network.weighting, network.gate ? ", gated" : "",
      network.doubly > 0 ? fmt::format(", doubly stochastic {}", network.doubly) : "");
}

bool convolves(const CaptionConfig& c) { return c.data.places.empty() && c.data.encoder.empty(); }
bool looks(const CaptionConfig& c) { return c.network.context == models::Context::attention; }

void EvaluateSettings::visit(Fields& f) {
  visit_search(f, decode);
  f.file("places", places, "of a model of given places: the file of these images'");
}

void PredictSettings::visit(Fields& f) {
  EvaluateSettings::visit(f);
  visit_n_best(f, decode);
}

}  // namespace fovea::tasks::captions
