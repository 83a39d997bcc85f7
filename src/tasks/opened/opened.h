#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoints/checkpoint.h"
#include "image/image.h"
#include "tasks/explain.h"
#include "tasks/given_back.h"
#include "tasks/run_of.h"
#include "tasks/task.h"
#include "tokens/tokenizer.h"

// A checkpoint as a run that nobody trained here: what it does decides which of these tasks it is
// of. They are in no list of tasks: there is nothing to train.
namespace fovea::tasks {

// Of a folder that checkpoints::is_checkpoint() knows; throws where it cannot be opened.
const Task& opened_task(const std::filesystem::path&);
std::unique_ptr<TaskConfig> opened_config(const std::filesystem::path&);
std::span<const Task* const> opened_table();  // all of them

// What `fovea info` says of it, a line each: a name and what is so called.
std::vector<std::pair<std::string, std::string>> described(const std::filesystem::path&);

namespace opened {

struct OpenedConfig final : TaskConfig {
  checkpoints::CheckpointInfo about;
  void visit(Fields&) override {}
  std::string data_name() const override;
  std::string model() const override;
  std::string attention() const override;
};

struct Opened : checkpoints::Checkpoint {
  OpenedConfig config;
  std::optional<tokens::Tokenizer> source, target;  // target: of what a translator writes

  // Throw where the folder has none.
  const tokens::Tokenizer& tokenizer() const;
  const tokens::Tokenizer& writes() const;
};
Opened load_opened(const RunFolder&);

using Ids = std::vector<int64_t>;
// Throws where it is empty, has an id that the model has no row for, or is longer than the model
// was made for.
Ids ids_of(const Opened&, const std::string& text);
std::vector<std::string> labels_of(const tokens::Tokenizer&, const Ids&);  // for people
// Sentences of ours, for whoever has none to hand; as much of each as the model reads.
std::vector<std::string> sentences(const Opened&);

[[noreturn]] void refuse_to_train();
GivenBack given_back_of(const Opened&);  // what its files hold, in float32

// There is no training: nothing was held out, and nobody learns.
struct NoSets {
  std::string fingerprint;
};
template <class Evaluate, class Predict>
class OpenedRun : public RunOf<Opened, NoSets, Evaluate, Predict> {
 public:
  using Base = RunOf<Opened, NoSets, Evaluate, Predict>;
  using Base::Base;
  train::Learner learner(const Watching&) const override { refuse_to_train(); }
  GivenBack given_back() const override { return given_back_of(this->model()); }

 protected:
  // By how much weights are off that are not kept as they are stored, in percent of their size.
  train::Scores more_scores() const override {
    const double lost = this->model().about.lost;
    if (lost == 0) return {};
    return {{"weights_off", 100 * lost}};
  }
  NoSets read_sets() const override { return {}; }
  Evaluation score_held_out(const ShareDone&) const override { refuse_to_train(); }
};
// At most n texts to try it on, of which nothing is expected.
std::vector<Example> examples_of(const std::vector<std::string>& texts, size_t n);
// What comes of each input. Where pictures are asked for, each first answer has those of where the
// model looked, by that way.
std::vector<Predictions> predictions_of(const Run&, std::span<const Input>, By, const Predicting&,
                                        const std::function<Predictions(const Input&)>& answer);
// What was asked to be judged: throws where that is no file.
const std::string& file_to_judge(const Judged&, const std::string& what);

struct NoSettings final : Settings {
  void visit(Fields&) override {}
};

const image::Image& picture_of(const Input&);  // throws where it is none
// A picture of any size, read by a model that sees: [tokens + places, W].
Tensor rows_of_picture(const Opened&, const image::Image&);

// At most n of the classes, likeliest first.
struct TopSettings final : Settings {
  int64_t n_best = 1;
  void visit(Fields&) override;
};
Predictions best_classes(const std::vector<std::string>& classes, const Tensor& logits,
                         int64_t n_best);
Evaluation accuracy_of(const std::vector<std::string>& classes, const std::vector<int64_t>& right,
                       const std::vector<std::vector<float>>& logits, const std::string& unit);
// Of an encoder's self-attention, and of what is said of its rows [R,L,·] by them.
void look_inside_encoder(const Opened&, const Ids&, Inside&);
// Of an encoder that tells a class: the first `count` of its rows, which the class is said of.
using Encoding = std::function<Tensor(const Tensor& rows, const models::TransformerPass&)>;
void say_of_first_rows(const Opened&, int64_t count, const Encoding&, Inside&);
// Rows of the sentences, for rank.
std::optional<explain::BlocksAtWork> blocks_of(const Opened&, const models::Stack&,
                                               const nn::Embedding&, int64_t sequences);

// A picture, as a model that sees it looks at it: without what is said of it.
Inside look_inside_picture(const Opened&, const image::Image&);

extern const Task task_writes, task_translates, task_fills, task_tells, task_sees, task_reads,
    task_views;

}  // namespace opened
}  // namespace fovea::tasks
