#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "fovea/seq2seq.h"
#include "fovea/text.h"
#include "fovea/train.h"
#include "report/report.h"
#include "tasks/fields.h"

// Translation: from pairs of sentences to a trained model, its scores and what it looked at.
namespace fovea::tasks {

struct TranslateData {
  std::string builtin = "dates";  // used where no file is given
  int64_t examples = 20000;       // of the built-in data
  int64_t min_words = 3, max_words = 30;
  std::string tsv, source, target;  // the user's pairs: one file, or two
  std::string valid, test;          // more of the kind; otherwise a share of the pairs
  double valid_share = 0.05, test_share = 0.05;
  bool swap = false;        // translate the other way
  int64_t longest = 200;    // tokens of either side; longer pairs are left out of training
  std::string fingerprint;  // of the pairs as read
};

struct TranslateConfig {
  TranslateData data;
  text::TokenizerConfig source, target;
  models::Seq2SeqConfig model;  // vocabularies are found in the data
  models::LossConfig loss;
  train::TrainConfig train;
  std::string watch = "loss";
  int64_t valid_sentences = 300;  // translated at each validation
  int64_t beam = 1;               // of the final scores
};
void visit(Fields&, TranslateConfig&);

// Settings that suit the data; what a command line says goes on top.
TranslateConfig defaults_for(const TranslateData&);

struct TranslateSets {
  text::Split pairs;
  std::string fingerprint;
};
TranslateSets load_data(const TranslateData&, uint64_t seed);

struct Translator {
  TranslateConfig config;
  text::Tokenizer source, target;
  models::Seq2Seq model;
};
Translator load_translator(const std::filesystem::path& run);

struct Translation {
  std::string text;
  double score = 0;
  bool ended = true;
  report::Heatmap map;  // where asked for
};
// n-best for each line, in its order. `progress` is called with the share done.
std::vector<std::vector<Translation>> translate(const Translator&,
                                                std::span<const std::string> lines,
                                                const models::DecodeConfig&,
                                                const std::function<void(double)>& progress = {});

struct Bucket {
  int64_t low = 0, high = 0;  // source tokens
  int64_t sentences = 0;
  train::Scores scores;
};
struct Evaluation {
  int64_t sentences = 0;  // unique sources; all their targets are references
  train::Scores scores;
  std::vector<Bucket> by_length;
};
Evaluation evaluate(const Translator&, std::span<const text::Pair>, const models::DecodeConfig&,
                    const std::function<void(double)>& progress = {});

struct Watching {
  std::function<void(const std::string&)> say;  // a line about what happens
  std::function<void(const train::Progress&)> progress;
  const std::atomic<bool>* stop = nullptr;
};
struct Trained {
  train::Finished finished;
  Evaluation test;  // empty when interrupted
};
// A new run folder, or the same again where it has a state: config.json, source.vocab,
// target.vocab, what train() writes, results.json and report.html.
Trained train_translate(const std::filesystem::path& run, TranslateConfig, const Watching&);

// config.json of a run; the fields a resumed run may change are its limits.
TranslateConfig read_config(const std::filesystem::path& run);

report::Page translate_page(const std::filesystem::path& run);
// Finished runs in one table.
report::Page compare_page(const std::vector<std::filesystem::path>& runs);

}  // namespace fovea::tasks
