#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "tasks/documents/documents.h"
#include "tasks/mechanism_names.h"
#include "tasks/transformer_fields.h"

namespace fovea::tasks::classification {
namespace {

void visit_data(Fields& f, DocumentsData& d) {
  f.group("Data");
  f.choice("builtin", d.builtin, "built-in documents, where none are given", {"reviews"});
  f.integer("examples", d.examples, "how many built-in documents", {20, 1e7});
  f.file("data", d.data, "TSV, CSV, JSONL, or a folder for each class; gzip too");
  f.text("label-column", d.columns.label, "by its name: which column holds the class");
  f.text("text-column", d.columns.text, "by its name: which column holds the text");
  f.file("valid", d.valid, "more documents, to validate with (default: a share)");
  f.file("test", d.test, "more documents, to score at the end (default: a share)");
  f.real("valid-share", d.valid_share, "share of each class held out to validate", {0, 0.5});
  f.real("test-share", d.test_share, "share of each class held out to test", {0, 0.9});
  f.integer("folds", d.folds, "cross-validation: parts, of which one is the test; 0: none",
            {0, 1000});
  f.integer("fold", d.fold, "which of them, from 1; 0: the one of the seed", {0, 1000});
}

void visit_reading(Fields& f, Reading& r) {
  f.group("Text");
  f.integer("vocab", r.vocabulary, "words of the vocabulary, at most", {5, 1e6});
  f.integer("min-count", r.min_count, "rarer words are unknown", {1, 1e6});
  f.integer("longest-sentence", r.longest_sentence, "words; longer ones are read in pieces",
            {1, 10000});
  f.integer("most-sentences", r.most_sentences, "of a document; what follows is not read",
            {1, 100000});
}

void visit_network(Fields& f, models::DocumentConfig& m) {
  using models::DocumentModel;
  f.group("Model");
  f.named("model", m.model,
          "hierarchical: words, then sentences; flat: all words at once; transformer: blocks of "
          "self-attention over them; mean: the mean of their vectors",
          std::vector{DocumentModel::hierarchical, DocumentModel::flat, DocumentModel::transformer,
                      DocumentModel::mean});
  f.choice("score", m.score, "how words and sentences are weighed", names_of(list_scores()));
  f.choice("weighting", m.weighting, "softmax is soft attention, sample hard",
           names_of(list_weightings()));
  f.named("cell", m.cell, "recurrent cell",
          std::vector<nn::Cell>{nn::Cell::rnn, nn::Cell::gru, nn::Cell::lstm});
  f.integer("embedding", m.embedding, "width of a word's vector", {1, 16384});
  f.integer("hidden", m.hidden, "width of a state, each way", {1, 16384});
  f.integer("layers", m.layers, "recurrent layers at each level", {1, 64});
}

void visit_loss(Fields& f, models::DocumentLossConfig& l, double& sentence_dropout) {
  f.group("Regularisation, and hard attention");
  f.real("dropout", l.dropout, "of the vectors of words, sentences and documents", {0, 0.95});
  f.real("word-dropout", l.word_dropout, "share of words read as unknown", {0, 0.95});
  f.real("sentence-dropout", sentence_dropout, "share of sentences not read", {0, 0.95});
  f.real("label-smoothing", l.label_smoothing, "share of a class spread over the others", {0, 0.9});
  f.real("reward-weight", l.reward, "hard: weight of the REINFORCE term", {0, 1e3});
  f.real("entropy-weight", l.entropy, "hard: bonus for the entropy of attention", {0, 1e3});
}

}  // namespace

const std::vector<Measure>& measures() {
  static const std::vector<Measure> all = {
      {"accuracy", "accuracy, %"},
      {"macro_f1", "macro-F1, %"},
      {.name = "loss", .title = "loss", .better = Better::lower, .digits = 3, .leading = false},
  };
  return all;
}

void DocumentsConfig::visit(Fields& f) {
  visit_data(f, data);
  visit_reading(f, reading);
  visit_further(f, further, "an encoder, BERT or of its family");
  visit_network(f, network);
  visit_transformer(f, network.transformer);
  visit_loss(f, loss, sentence_dropout);
  visit_training(f, measures());
  f.real("attention-rate", attention_rate, "times the rate, for what weighs words and sentences",
         {0, 1000});
  f.integer("batch-words", train.batch_tokens, "documents times the longest of them", {1, 1e9});
  f.integer("batch-documents", train.batch_examples, "at most; 0: no limit", {0, 1e9});
  // A score by place is made for the longest sequence there can be.
  network.longest_source = models::by_sentences(network)
                               ? std::max(reading.longest_sentence, reading.most_sentences)
                               : reading.longest_sentence * reading.most_sentences;
}

void DocumentsConfig::suit_data() {
  watch = "accuracy";
  train.schedule.decay = train::Decay::cosine;
  train.schedule.warmup = 20;
  train.optimizer.beta2 = 0.98f;
  network.transformer.blocks = 2;
  network.transformer.depth = 64;
  if (further.on()) {
    train.optimizer.method = train::Method::adamw;
    train.optimizer.weight_decay = 0.01f;
    train.epochs = 3;
    train.schedule.rate = 5e-5f;
    train.batch_tokens = 1 << 13;
    train.batch_examples = 32;
    loss.dropout = 0.1f;
    return;
  }
  if (data.data.empty()) {
    network.embedding = 32;
    network.hidden = 24;
    train.epochs = 6;
    train.schedule.rate = 1e-2f;
    train.batch_tokens = 1 << 20;
    train.batch_examples = 32;
    loss.dropout = 0.1f;
    if (network.model == models::DocumentModel::transformer) train.schedule.rate = 3e-3f;
    return;
  }
  // Few documents and many words: what keeps a model from learning them by heart.
  train.optimizer.method = train::Method::adamw;
  train.optimizer.weight_decay = 0.01f;
  train.epochs = 10;
  train.schedule.rate = 3e-3f;
  train.batch_tokens = 1 << 15;
  train.batch_examples = 32;
  train.average = 0.98f;
  train.keep = train::Kept::last;
  reading.min_count = 3;
  network.embedding = 64;
  network.hidden = 32;
  loss.dropout = 0.4f;
  loss.word_dropout = 0.2f;
  sentence_dropout = 0.4;
  if (network.model == models::DocumentModel::transformer) train.schedule.rate = 1e-3f;
}

std::string DocumentsConfig::data_name() const {
  if (data.data.empty()) return data.builtin;
  std::filesystem::path path(data.data);
  if (!path.has_filename()) path = path.parent_path();
  return path.stem().string();
}

std::string DocumentsConfig::model() const {
  const models::DocumentConfig& m = network;
  if (further.on()) return further.model;
  if (m.model == models::DocumentModel::mean) {
    return fmt::format("the mean of word vectors of {}", m.embedding);
  }
  if (m.model == models::DocumentModel::transformer) return text_of(m.transformer);
  return fmt::format("{} {} {}, {} layer{}", name_of(m.model), name_of(m.cell), m.hidden, m.layers,
                     m.layers == 1 ? "" : "s");
}

std::string DocumentsConfig::attention() const {
  if (further.on()) return further.attention;
  if (!models::looks(network)) return "none, the mean";
  return fmt::format("{} {}, {}", models::by_sentences(network) ? "words and sentences," : "words,",
                     network.score, network.weighting);
}

void PredictSettings::visit(Fields& f) {
  f.group("Output");
  f.integer("n-best", n_best, "print this many classes", {1, 1000000});
}

}  // namespace fovea::tasks::classification
