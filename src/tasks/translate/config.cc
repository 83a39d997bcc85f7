#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tasks/builtin/builtin.h"
#include "tasks/config.h"
#include "tasks/translate.h"

namespace fovea::tasks {
namespace {

std::vector<std::string> names_of(const std::vector<Listed>& listed) {
  std::vector<std::string> names;
  for (const Listed& l : listed) names.push_back(l.name);
  return names;
}

void visit_data(Fields& f, TranslateData& d) {
  std::vector<std::string> builtin;
  for (const BuiltinData& b : builtin_data()) builtin.push_back(b.name);
  f.group("Data");
  f.choice("builtin", d.builtin, "built-in pairs, where no file is given", builtin);
  f.integer("examples", d.examples, "how many built-in pairs", {10, 1e8});
  f.integer("min-words", d.min_words, "phrases: shortest source", {1, 10000});
  f.integer("max-words", d.max_words, "phrases: longest source", {1, 10000});
  f.text("tsv", d.tsv, "pairs, source<TAB>target a line; gzip too");
  f.text("src", d.source, "source sentences, a line each, with --tgt");
  f.text("tgt", d.target, "their translations, a line each");
  f.text("valid", d.valid, "TSV to validate with (default: a share of the pairs)");
  f.text("test", d.test, "TSV to score at the end (default: a share of the pairs)");
  f.real("valid-share", d.valid_share, "share of unique sources held out to validate", {0, 0.5});
  f.real("test-share", d.test_share, "share of unique sources held out to test", {0, 0.9});
  f.flag("swap", d.swap, "translate from the second column to the first");
  f.integer("longest", d.longest, "tokens; longer pairs are left out of training", {1, 100000});
  f.text("fingerprint", d.fingerprint, "of the pairs as read; a resumed run checks it");
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

void visit_model(Fields& f, TranslateConfig& c) {
  using namespace models;
  Seq2SeqConfig& m = c.model;
  f.group("Model");
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
  f.named("cell", m.cell, "recurrent cell",
          std::vector<nn::Cell>{nn::Cell::rnn, nn::Cell::gru, nn::Cell::lstm});
  f.integer("embedding", m.embedding, "width of a token's vector", {1, 16384});
  f.integer("hidden", m.hidden, "width of a state", {1, 16384});
  f.integer("layers", m.layers, "recurrent layers on either side", {1, 64});
  f.flag("bidirectional", m.bidirectional, "the encoder reads both ways");
  f.integer("longest-source", m.longest_source, "location score: tokens it is made for", {1, 1e5});
}

void visit_loss(Fields& f, models::LossConfig& l) {
  f.group("Regularisation, and hard attention");
  f.real("dropout", l.dropout, "of embeddings, between layers, and before the output", {0, 0.95});
  f.real("label-smoothing", l.label_smoothing, "share of a target spread over the others",
         {0, 0.9});
  f.real("reward-weight", l.reward, "hard: weight of the REINFORCE term", {0, 1e3});
  f.real("entropy-weight", l.entropy, "hard: bonus for undecided attention", {0, 1e3});
  f.real("discount", l.discount, "hard: how much later words count in a choice's reward", {0, 1});
  f.real("semi-sampling", l.semi_sampling, "hard: share of sentences that take the mean", {0, 1});
}

void visit_train(Fields& f, TranslateConfig& c) {
  using namespace train;
  TrainConfig& t = c.train;
  f.group("Training");
  f.integer("steps", t.steps, "end of the run; 0: no such limit", {0, 1e12});
  f.integer("epochs", t.epochs, "end of the run; 0: no such limit", {0, 1e9});
  f.real("minutes", t.minutes, "end of the run; 0: no such limit", {0, 1e7});
  f.named("optimizer", t.optimizer.method, "",
          std::vector<Method>{Method::adam, Method::adamw, Method::sgd});
  f.real("rate", t.schedule.rate, "learning rate", {0, 100});
  f.named("decay", t.schedule.decay, "how the rate falls",
          std::vector<Decay>{Decay::constant, Decay::cosine, Decay::inverse_root, Decay::plateau});
  f.integer("warmup", t.schedule.warmup, "steps of linear growth", {0, 1e9});
  f.real("rate-floor", t.schedule.floor, "smallest rate, as a share", {0, 1});
  f.real("plateau-factor", t.schedule.factor, "plateau: multiplies the rate", {0.001, 1});
  f.integer("plateau-patience", t.schedule.patience, "plateau: validations to wait", {1, 1e6});
  f.real("beta1", t.optimizer.beta1, "adam", {0, 0.99999});
  f.real("beta2", t.optimizer.beta2, "adam", {0, 0.99999999});
  f.real("epsilon", t.optimizer.epsilon, "adam", {0, 1});
  f.real("momentum", t.optimizer.momentum, "sgd", {0, 0.99999});
  f.real("weight-decay", t.optimizer.weight_decay, "", {0, 10});
  f.real("clip", t.clip, "largest gradient norm; 0: no limit", {0, 1e9});
  f.real("average", t.average, "decay of the averaged weights that are kept; 0: none",
         {0, 0.999999});
  f.integer("batch-tokens", t.batch_tokens, "sentences times the longest of them", {1, 1e9});
  f.integer("batch-sentences", t.batch_examples, "at most; 0: no limit", {0, 1e9});
  f.integer("validate-every", t.validate_every, "steps; 0: after each epoch", {0, 1e9});
  f.integer("valid-sentences", c.valid_sentences, "translated at each validation", {0, 1e6});
  f.choice("watch", c.watch, "the score whose best weights are kept",
           {"loss", "bleu", "chrf", "exact", "token_error"});
  f.integer("stop-after", t.stop_after, "validations without a better score; 0: never", {0, 1e6});
  f.integer("save-every", t.save_every, "steps between checkpoints; 0: at validations", {0, 1e9});
  f.integer("beam", c.beam, "of the final scores", {1, models::kLargestBeam});
  auto seed = static_cast<int64_t>(t.seed);
  f.integer("seed", seed, "of weights, shuffles, dropout, splits and draws", {0, 9e15});
  t.seed = static_cast<uint64_t>(seed);
}

}  // namespace

void visit(Fields& f, TranslateConfig& c) {
  visit_data(f, c.data);
  visit_text(f, c);
  visit_model(f, c);
  visit_loss(f, c.loss);
  visit_train(f, c);
  c.target.min_count = c.source.min_count;
}

TranslateConfig defaults_for(const TranslateData& data) {
  TranslateConfig c;
  c.data = data;
  c.train.schedule.decay = train::Decay::cosine;
  c.train.schedule.rate = 2e-3f;
  c.train.schedule.warmup = 100;
  c.train.optimizer.beta2 = 0.98f;
  const bool own = !data.tsv.empty() || !data.source.empty();
  if (!own && data.builtin == "dates") {
    c.model.embedding = 64;
    c.model.hidden = 128;
    c.train.epochs = 6;
    c.train.schedule.rate = 4e-3f;
    c.train.batch_tokens = 2048;
    c.loss.dropout = 0.1f;
  } else if (!own) {
    c.source.unit = c.target.unit = text::Unit::words;
    c.model.embedding = 96;
    c.model.hidden = 160;
    c.train.epochs = 4;
    c.train.schedule.rate = 3e-3f;
    c.train.batch_tokens = 1024;
  } else {
    // Small batches and a large rate learn most from each sentence of a small corpus.
    c.source.unit = c.target.unit = text::Unit::subwords;
    c.source.size = c.target.size = 3000;
    c.model.embedding = 192;
    c.train.epochs = 10;
    c.train.schedule.rate = 2.5e-3f;
    c.train.schedule.warmup = 400;
    c.train.batch_tokens = 512;
    c.train.average = 0.998f;
    c.loss.dropout = 0.15f;
    c.loss.label_smoothing = 0.1f;
    c.watch = "bleu";
  }
  return c;
}

TranslateConfig read_config(const std::filesystem::path& run) {
  const std::filesystem::path file = run / "config.json";
  nlohmann::ordered_json json = read_json(file);
  if (!json.is_object() || !json.contains("task") || json["task"] != "translate") {
    throw Error("config", file.string() + " is not a translation run's");
  }
  json.erase("task");
  TranslateConfig c;
  from_json(
      json, [&](Fields& f) { visit(f, c); }, file.string());
  return c;
}

}  // namespace fovea::tasks
