#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fovea/text.h"
#include "report/report.h"
#include "tasks/coder.h"
#include "tasks/further.h"
#include "tasks/run_folder.h"
#include "tasks/task.h"
#include "tasks/translate/network.h"

// Translation: from pairs of sentences to a trained model, its scores and what it looked at.
namespace fovea::tasks {
extern const Task task_translate;
}

namespace fovea::tasks::translation {

struct TranslateData {
  std::string builtin = "dates";  // used where no file is given
  int64_t examples = 20000;       // of the built-in data
  int64_t min_words = 3, max_words = 30;
  std::string tsv, source, target;  // the user's pairs: one file, or two
  std::string valid, test;          // more of the kind; otherwise a share of the pairs
  double valid_share = 0.05, test_share = 0.05;
  bool swap = false;      // translate the other way
  int64_t longest = 200;  // tokens of either side; longer pairs are left out of training
};

struct TranslateConfig final : TaskConfig {
  TranslateData data;
  text::TokenizerConfig source, target;
  Kind kind = Kind::recurrent;
  models::Seq2SeqConfig network;  // vocabularies are found in the data
  models::TransformerConfig transformer;
  models::LossConfig loss;
  int64_t valid_sentences = 300;  // translated at each validation
  int64_t beam = 1;               // of the final scores
  FurtherConfig further;

  void visit(Fields&) override;
  void suit_data() override;
  std::string data_name() const override;
  std::string model() const override;
  std::string attention() const override;
};
TranslateConfig defaults_for(const TranslateData&);
const std::vector<Measure>& measures();

// Options of eval and predict.
struct EvaluateSettings : Settings {
  models::DecodeConfig decode;
  void visit(Fields&) override;
};
struct PredictSettings final : EvaluateSettings {
  std::string prefix;  // what the output begins with
  void visit(Fields&) override;
};

struct TranslateSets {
  text::Split pairs;
  std::string fingerprint;
  std::vector<std::string> warnings;  // columns that were left out
};
TranslateSets load_data(const TranslateData&, uint64_t seed);

inline constexpr const char *kSourceFile = "source.vocab", *kTargetFile = "target.vocab";

struct Translator {
  TranslateConfig config;
  Coder source, target;
  Network model;
  models::SpecialIds special = {};                 // of the target
  std::optional<checkpoints::Origin> origin = {};  // where it is trained further
};
// Tokenizers and special ids of a model that is trained further.
void suit_origin(Translator&, const RunFolder* run);
Translator load_translator(const RunFolder&);

// As DecodeConfig::prefix has it. Throws where the model has no token for a piece of it.
std::vector<int64_t> encode_prefix(const Coder& target, const std::string&);
// Throws where the weights of a source of so many tokens would take too much to keep.
void check_weights(size_t source, const models::DecodeConfig&);
// n-best for each line, in its order.
std::vector<Predictions> translate(const Translator&, std::span<const std::string> lines,
                                   const models::DecodeConfig&, const ShareDone& = {});

// As people see them: an unknown token is the source piece that it looked at most.
std::vector<std::string> pieces_of(const Coder& target, const models::Decoded&,
                                   const std::vector<std::string>& source);
// Of a source, its end included where that is one of its tokens.
std::vector<std::string> source_pieces(const Coder&, const std::string& line);
std::vector<std::string> shown_pieces(std::vector<std::string> source);
inline constexpr const char* kEndMark = "⏎";

// What its greedy translation came of. It refers to the translator.
Inside inside(const Translator&, const std::string& line);

// Of unique sources, all their targets being references; and by their length.
Evaluation evaluate(const Translator&, std::span<const text::Pair>, const models::DecodeConfig&,
                    const ShareDone& = {});

// What is minimised: −log p of the targets. It refers to the translator.
train::Learner learner(const Translator&, const text::Split&, const Watching&);

}  // namespace fovea::tasks::translation
