#include <fmt/format.h>

#include <filesystem>

#include "tasks/decoder_fields.h"
#include "tasks/mechanism_names.h"
#include "tasks/transformer_fields.h"
#include "tasks/translate/builtin.h"
#include "tasks/translate/translate.h"

namespace fovea::tasks::translation {
namespace {

void visit_data(Fields& f, TranslateData& d) {
  std::vector<std::string> builtin;
  for (const BuiltinData& b : builtin_data()) builtin.push_back(b.name);
  f.group("Data");
  f.choice("builtin", d.builtin, "built-in pairs, where no file is given", builtin);
  f.integer("examples", d.examples, "how many built-in pairs", {10, 1e8});
  f.integer("min-words", d.min_words, "phrases: shortest source", {1, 10000});
  f.integer("max-words", d.max_words, "phrases: longest source", {1, 10000});
  f.file("tsv", d.tsv, "pairs, source<TAB>target a line; gzip too");
  f.file("src", d.source, "source sentences, a line each, with --tgt");
  f.file("tgt", d.target, "their translations, a line each");
  f.file("valid", d.valid, "TSV to validate with (default: a share of the pairs)");
  f.file("test", d.test, "TSV to score at the end (default: a share of the pairs)");
  f.real("valid-share", d.valid_share, "share of unique sources held out to validate", {0, 0.5});
  f.real("test-share", d.test_share, "share of unique sources held out to test", {0, 0.9});
  f.flag("swap", d.swap, "translate from the second column to the first");
  f.integer("longest", d.longest, "tokens; longer pairs are left out of training", {1, 100000});
}

void visit_text(Fields& f, TranslateConfig& c) {
  const std::vector<text::Unit> units = {text::Unit::characters, text::Unit::words,
                                         text::Unit::subwords};
  f.group("Text");
  f.named("src-unit", c.source.unit, "what a source token is", units);
  f.named("tgt-unit", c.target.unit, "what a target token is", units);
  f.integer("src-vocab", c.source.size, "source vocabulary, at most", {5, 1e6});
  f.integer("tgt-vocab", c.target.size, "target vocabulary, at most", {5, 1e6});
  f.integer("min-count", c.source.min_count, "rarer words and characters are unknown", {1, 1e6});
}

void visit_network(Fields& f, TranslateConfig& c) {
  using namespace models;
  Seq2SeqConfig& m = c.network;
  f.group("Model");
  f.named("model", c.kind, "what translates",
          std::vector<Kind>{Kind::recurrent, Kind::transformer});
  f.named("context", m.context, "one fixed vector, or attention at each step",
          std::vector<Context>{Context::fixed, Context::attention});
  f.named("order", m.order, "bahdanau looks before the cell, luong after",
          std::vector<Order>{Order::bahdanau, Order::luong});
  f.flag("input-feeding", m.input_feeding, "luong: the last output enters the cell");
  f.choice("score", m.score, "how a state is compared with the source", names_of(list_scores()));
  f.named("locality", m.locality, "the whole source, a window at t, or a predicted one",
          std::vector<Locality>{Locality::global, Locality::local_m, Locality::local_p});
  f.integer("window", m.window, "tokens on either side, where local", {1, 10000});
  f.choice("weighting", m.weighting, "softmax is soft attention, sample hard",
           names_of(list_weightings()));
  f.group("Recurrent network");
  f.named("cell", m.cell, "recurrent cell",
          std::vector<nn::Cell>{nn::Cell::rnn, nn::Cell::gru, nn::Cell::lstm});
  f.integer("embedding", m.embedding, "width of a token's vector", {1, 16384});
  f.integer("hidden", m.hidden, "width of a state", {1, 16384});
  f.integer("layers", m.layers, "recurrent layers on either side", {1, 64});
  f.flag("bidirectional", m.bidirectional, "the encoder reads both ways");
  f.integer("longest-source", m.longest_source, "location score: tokens it is made for", {1, 1e5});
}

}  // namespace

const std::vector<Measure>& measures() {
  static const std::vector<Measure> all = {
      {"perplexity", "perplexity", Better::lower, 3},
      {"bleu", "BLEU"},
      {"chrf", "chrF"},
      {"exact", "exact match"},
      {.name = "loss", .title = "loss", .better = Better::lower, .digits = 3, .leading = false},
      {.name = "token_error", .title = "token error", .better = Better::lower, .leading = false},
  };
  return all;
}

void TranslateConfig::visit(Fields& f) {
  visit_data(f, data);
  visit_text(f, *this);
  visit_further(f, further, "an encoder with a decoder, Marian or T5");
  visit_network(f, *this);
  visit_transformer(f, transformer);
  visit_writer_loss(f, loss, "of embeddings, between layers, and before the output", "sentences");
  visit_training(f, measures());
  f.integer("batch-tokens", train.batch_tokens, "sentences times the longest of them", {1, 1e9});
  f.integer("batch-sentences", train.batch_examples, "at most; 0: no limit", {0, 1e9});
  f.integer("valid-sentences", valid_sentences, "translated at each validation", {0, 1e6});
  f.integer("beam", beam, "of the final scores", {1, models::kLargestBeam});
  target.min_count = source.min_count;
}

namespace {

void suit_transformer(TranslateConfig& c, bool own) {
  models::TransformerConfig& t = c.transformer;
  c.network.score = "scaled_dot";
  t.blocks = 2;
  t.depth = own ? 160 : 128;
  t.heads = own ? 4 : 8;
  c.train.schedule.rate = own ? 4e-3f : 3e-3f;
  c.train.schedule.warmup = own ? 400 : 200;
  c.train.batch_tokens = own ? 768 : 2048;
  if (!own) return;
  t.positions = nn::Positions::sinusoidal;
  c.loss.dropout = 0.05f;  // 0.1 cost 2 BLEU of 43
}

}  // namespace

void TranslateConfig::suit_data() {
  train.schedule.decay = train::Decay::cosine;
  train.schedule.rate = 2e-3f;
  train.schedule.warmup = 100;
  train.optimizer.beta2 = 0.98f;
  const bool own = !data.tsv.empty() || !data.source.empty();
  if (!own && data.builtin == "dates") {
    network.embedding = 64;
    network.hidden = 128;
    train.epochs = 6;
    train.schedule.rate = 4e-3f;
    train.batch_tokens = 2048;
    loss.dropout = 0.1f;
  } else if (!own) {
    source.unit = target.unit = text::Unit::words;
    network.embedding = 96;
    network.hidden = 160;
    train.epochs = 4;
    train.schedule.rate = 3e-3f;
    train.batch_tokens = 1024;
  } else {
    // Small batches and a large rate learn most from each sentence of a small corpus.
    source.unit = target.unit = text::Unit::subwords;
    source.size = target.size = 3000;
    network.embedding = 192;
    train.epochs = 10;
    train.schedule.rate = 2.5e-3f;
    train.schedule.warmup = 400;
    train.batch_tokens = 512;
    train.average = 0.998f;
    loss.dropout = 0.15f;
    loss.label_smoothing = 0.1f;
    watch = "bleu";
  }
  if (kind == Kind::transformer) suit_transformer(*this, own);
  if (!further.on()) return;
  train.optimizer.method = train::Method::adamw;
  train.optimizer.weight_decay = 0.01f;
  train.epochs = 3;
  train.schedule.rate = 5e-5f;
  train.batch_tokens = 2048;
  train.average = 0;
  loss.dropout = 0.1f;
}

TranslateConfig defaults_for(const TranslateData& data) {
  TranslateConfig c;
  c.data = data;
  c.suit_data();
  return c;
}

std::string TranslateConfig::data_name() const {
  const std::string& file = data.tsv.empty() ? data.source : data.tsv;
  return file.empty() ? data.builtin : std::filesystem::path(file).stem().string();
}

std::string TranslateConfig::model() const {
  if (further.on()) return further.model;
  if (kind == Kind::transformer) return text_of(transformer);
  const models::Seq2SeqConfig& m = network;
  const std::string cell = fmt::format("{} {}, {} layer{}", name_of(m.cell), m.hidden, m.layers,
                                       m.layers == 1 ? "" : "s");
  if (m.context == models::Context::fixed) return cell;
  return fmt::format("{}, {} order{}", cell, name_of(m.order),
                     m.input_feeding ? " with input feeding" : "");
}

std::string TranslateConfig::attention() const {
  if (further.on()) return further.attention;
  if (kind == Kind::transformer) return attention_of(transformer);
  if (network.context == models::Context::fixed) return "none, a fixed context";
  return fmt::format("{} {}, {}", name_of(network.locality), network.score, network.weighting);
}

void EvaluateSettings::visit(Fields& f) { visit_search(f, decode); }

void PredictSettings::visit(Fields& f) {
  EvaluateSettings::visit(f);
  visit_n_best(f, decode);
  f.integer("longest", decode.longest, "tokens; 0: twice the source and ten", {0, 1e6});
  f.text("prefix", prefix, "what the output begins with; the model goes on from it");
}

}  // namespace fovea::tasks::translation
