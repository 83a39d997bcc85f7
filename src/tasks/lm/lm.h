#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/sample.h"
#include "fovea/text.h"
#include "fovea/transformer.h"
#include "tasks/coder.h"
#include "tasks/further.h"
#include "tasks/run_folder.h"
#include "tasks/task.h"

// Language models: text that goes on. A token is a character, a word or a subword, and the end of a
// line is a token of its own, text::kEnd; or tokens are those of a model that is trained further.
namespace fovea::tasks {
extern const Task task_lm;
}

namespace fovea::tasks::lm {

struct LmData {
  std::string file;                            // the user's text; none: built-in tales
  int64_t examples = 8000;                     // built-in tales, a line each
  double valid_share = 0.1, test_share = 0.0;  // from the end of the text
};

struct LmConfig final : TaskConfig {
  LmData data;
  text::TokenizerConfig tokens;
  models::TransformerConfig network;  // the vocabulary is found in the data
  models::LossConfig loss;
  int64_t context = 256;       // tokens that it sees
  bool context_ranks = false;  // over_ranks.h
  FurtherConfig further;

  void visit(Fields&) override;
  void suit_data() override;
  std::string data_name() const override;
  std::string model() const override;
  std::string attention() const override;
};
const std::vector<Measure>& measures();

struct EvaluateSettings final : Settings {
  void visit(Fields&) override {}
};
struct PredictSettings final : Settings {
  models::SampleConfig sample{.temperature = 0.8f};
  int64_t length = 200;  // tokens to write
  int64_t seed = 0;
  DType cache = DType::f32;
  void visit(Fields&) override;
};

// ---- text
std::vector<std::string> tales(int64_t count, uint64_t seed);  // built-in, a line each

struct LmSets {
  std::vector<std::string> train, valid, test;  // lines
  std::string fingerprint;
};
LmSets load_data(const LmConfig&);

using Tokens = std::vector<int64_t>;
Tokens encode(const Coder&, std::span<const std::string> lines);  // each line ends
Tokens encode_prompt(const Coder&, std::string_view);             // the last does not

// Lines of a set as texts to look at one by one: each tale; of the user's text, as many lines as
// make about 200 bytes.
std::vector<std::string> texts_in(const LmConfig&, std::span<const std::string> lines);

// ---- the model
inline constexpr const char* kVocabularyFile = "text.vocab";
inline constexpr const char* kEndOfLine = "⏎";  // as it is shown

struct LanguageModel {
  LmConfig config;
  Coder tokenizer;
  models::Transformer model;
  std::optional<checkpoints::Origin> origin = {};  // where it is trained further

  std::string label(int64_t id) const;  // of a token, for people
  bool has_questions() const;           // of the built-in tales
};
LanguageModel load_language_model(const RunFolder&);

// Mean −log p of each token by those before it in its window of `context`; where it learned the
// built-in tales, the share of the lines' questions that it answers, too.
Evaluation evaluate(const LanguageModel&, std::span<const std::string> lines,
                    const ShareDone& = {});
// Of each text by itself: how well its tokens are guessed.
std::vector<Foreseen> foreseen(const LanguageModel&, std::span<const std::string> texts,
                               const ShareDone& = {});
train::Learner learner(const LanguageModel&, const LmSets&, const Watching&);

// Of a line "… Who has the hat? Ada. …": where the answer's tokens are, its full stop included.
struct AnswerSpan {
  int64_t begin = 0, end = 0;
};
std::vector<AnswerSpan> answers_in(const text::Tokenizer&, const std::string& line);
// How many of the lines' questions it answers as they do, where it always takes the likeliest.
struct RightAnswers {
  int64_t right = 0, questions = 0;
};
RightAnswers right_answers(const LanguageModel&, std::span<const std::string> lines,
                           const ShareDone& = {});

// The prompt and what follows. An empty one begins a line; of one that is longer than the context,
// its end counts. Where the context is full, its later half goes on.
Prediction write_on(const LanguageModel&, const std::string& prompt, const PredictSettings&,
                    const Predicting&);

GivenBack give_back(const LanguageModel&);

// How likely each next token of a text was, and the one that the model would write after it.
Inside inside(const LanguageModel&, const std::string& text);

}  // namespace fovea::tasks::lm
