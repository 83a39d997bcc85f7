#include <filesystem>

#include "tasks/decoder_fields.h"
#include "tasks/lm/lm.h"
#include "tasks/transformer_fields.h"

namespace fovea::tasks::lm {

const std::vector<Measure>& measures() {
  static const std::vector<Measure> all = {
      {"loss", "loss, nats a token", Better::lower, 4},
      {"perplexity", "perplexity", Better::lower, 3},
      {"bits", "bits a character", Better::lower, 3},
      {"answered", "questions answered, %", Better::higher, 1},
  };
  return all;
}

void LmConfig::visit(Fields& f) {
  using text::Unit;
  f.group("Data");
  f.file("file", data.file, "text; gzip too");
  f.integer("examples", data.examples, "how many built-in tales, where no file is given",
            {20, 1e7});
  f.real("valid-share", data.valid_share, "share at the end of the text, to validate", {0, 0.9});
  f.real("test-share", data.test_share, "share after that, to score at the end", {0, 0.9});
  f.named("unit", tokens.unit, "what a token is",
          std::vector<Unit>{Unit::characters, Unit::words, Unit::subwords});
  f.integer("vocab", tokens.size, "tokens at most", {8, 1e6});
  f.integer("min-count", tokens.min_count, "rarer tokens are unknown", {1, 1e9});
  f.integer("context", context, "tokens that it sees", {1, 1e6});
  f.flag(
      "context-ranks", context_ranks,
      "several processes each hold a part of every window, in place of some batches: for contexts "
      "too long for one");
  visit_further(f, further, "a decoder, GPT-2 or of Llama's family");
  visit_transformer(f, network);
  f.real("dropout", loss.dropout, "share of each block's output and of attention weights set to 0",
         {0, 0.95});
  f.real("label-smoothing", loss.label_smoothing, "share of a target spread over the others",
         {0, 0.99});
  f.named(
      "type", loss.type,
      "what blocks compute in: bf16 is for a GPU, and takes a fraction of the time and half the "
      "memory; weights and their updates stay f32",
      std::vector{DType::f32, DType::bf16});
  visit_training(f, measures());
  f.integer("batch-tokens", train.batch_tokens, "tokens of a step, in all windows together",
            {1, 1e9});
  network.longest = context;
}

void LmConfig::suit_data() {
  train.optimizer.method = train::Method::adamw;
  train.optimizer.weight_decay = 0.1f;
  train.optimizer.beta2 = 0.98f;
  train.schedule.decay = train::Decay::cosine;
  train.schedule.warmup = 100;
  train.schedule.floor = 0.05f;
  if (further.on()) {
    train.optimizer.weight_decay = 0.01f;
    train.epochs = 3;
    train.schedule.rate = 5e-5f;
    train.batch_tokens = 2048;
    loss.dropout = 0.1f;
    return;
  }
  if (data.file.empty()) {
    tokens.unit = text::Unit::words;
    context = 96;
    network.blocks = 2;
    network.depth = 64;
    network.heads = 8;
    network.positions = network.linear ? nn::Positions::rotary : nn::Positions::alibi;
    network.tied = false;
    train.epochs = 6;
    train.schedule.rate = 4e-3f;
    train.batch_tokens = 1024;
    return;
  }
  network.blocks = 6;
  network.depth = 192;
  network.heads = 6;
  train.epochs = 10;
  train.schedule.rate = 3e-3f;
  train.batch_tokens = 4096;
  loss.dropout = 0.1f;
}

std::string LmConfig::data_name() const {
  return data.file.empty() ? "tales" : std::filesystem::path(data.file).stem().string();
}
std::string LmConfig::model() const { return further.on() ? further.model : text_of(network); }
std::string LmConfig::attention() const {
  return further.on() ? further.attention : attention_of(network);
}

void PredictSettings::visit(Fields& f) {
  f.group("Writing");
  f.integer("length", length, "tokens to write", {1, 1e7});
  f.real("temperature", sample.temperature, "lower is safer; 0: always the likeliest", {0, 1000});
  f.integer("top-k", sample.top_k, "draw from the K likeliest; 0: from all", {0, 1e9});
  f.real("top-p", sample.top_p, "draw from the likeliest that reach P together", {1e-6, 1});
  f.integer("seed", seed, "another one writes something else", {0, 9e15});
  visit_cache(f, cache);
}

}  // namespace fovea::tasks::lm
