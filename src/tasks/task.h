#pragma once

#include <atomic>
#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/rank.h"
#include "fovea/train.h"
#include "report/report.h"
#include "tasks/config.h"
#include "tasks/evaluation.h"
#include "tasks/fields.h"
#include "tasks/input.h"
#include "tasks/inside.h"

// A task is a folder: src/tasks/NAME/task.cc defines `extern const Task task_NAME`, which says all
// that is said about it. CMake makes a table of the folders (cmake/Tables.cmake); the program's
// verbs go through it and know no task by name.
namespace fovea::team {
class Team;
Team& alone();
}  // namespace fovea::team

namespace fovea::tasks {

class RunFolder;
struct GivenBack;  // given_back.h

// What long work tells whoever waits for it.
struct Watching {
  std::function<void(const std::string&)> say;  // a line about what happens
  std::function<void(const train::Progress&)> progress;
  const std::atomic<bool>* stop = nullptr;
  team::Team* team = &team::alone();  // who shares the work
};
// How long work is watched and shared. It is called now and then with the share that is done; what
// it throws ends the work. Where it has a team, all ranks do the work, parts of which they deal
// (deal.h); what is not dealt, each does.
class ShareDone {
 public:
  ShareDone() = default;
  template <class Tell>
  requires std::constructible_from<std::function<void(double)>, Tell> ShareDone(Tell tell)
      : tell_(std::move(tell)) {}
  ShareDone(team::Team& team, std::function<void(double)> tell,
            const std::atomic<bool>* stop = nullptr)
      : tell_(std::move(tell)), team_(&team), stop_(stop) {}

  void operator()(double share) const {
    if (tell_) tell_(share);
  }
  explicit operator bool() const { return static_cast<bool>(tell_); }
  ShareDone quiet() const { return {*team_, nullptr, stop_}; }  // the same, and nobody is told
  team::Team& team() const { return *team_; }
  const std::atomic<bool>* stop() const { return stop_; }  // on any rank, it ends what is dealt

 private:
  std::function<void(double)> tell_;
  team::Team* team_ = &team::alone();
  const std::atomic<bool>* stop_ = nullptr;
};
// One that throws train::Stopped as soon as a stop is asked for.
ShareDone stopping(const Watching&);

// What is judged: a file of the user's, or one of the run's own sets.
enum class Set : uint8_t { train, valid, test };
const char* name_of(Set);
std::string described(Set);  // "the training set"
struct Judged {
  std::string file;  // empty: the set
  Set set = Set::test;
};

// An input that was held out of training, and what should come of it.
struct Example {
  Input input;
  std::string expected;
  image::Image image = {};  // where the input is one
};

// An input of a set, and all that may come of it, the one to show first; nothing where what comes
// is the input's own continuation, which Run::foreseen() judges.
struct Solved {
  Input input;
  std::vector<std::string> expected;
};
// A text whose every token a language model guesses from those before it.
struct Foreseen {
  double loss = 0;      // mean −log p of a token, in nats
  double accuracy = 0;  // share of the tokens that it held for the likeliest
  int64_t tokens = 0;
  std::string hardest, instead;  // the token with the largest −log p, and what it guessed there
};

struct Prediction {
  std::string text;
  double score = 0;                       // larger is likelier
  bool ended = true;                      // false: cut at a limit
  std::vector<report::Picture> pictures;  // where it looked, if asked for and if it looks
};
using Predictions = std::vector<Prediction>;  // of one input, best first
enum class Maps : uint8_t { none, keep };
// How predictions are asked for, and what is told while they are made.
struct Predicting {
  Maps maps = Maps::none;
  ShareDone done;
  // Where output is made piece by piece: each piece of an input's text, as soon as it is there.
  std::function<void(std::string_view)> piece;
};

// A model with its settings and, read when they are needed, its data. One that was opened never
// changes: any number of threads may ask it at once. A training changes its weights, through its
// learner. run_of.h does what all tasks do alike.
class Run {
 public:
  virtual ~Run() = default;
  virtual const TaskConfig& config() const = 0;
  virtual std::unique_ptr<TaskConfig> copy_of_config() const = 0;
  virtual int64_t weights() const = 0;          // how many numbers it learns
  virtual Tensors tensors() const = 0;          // what they are, by name, with its buffers
  virtual std::string fingerprint() const = 0;  // of its data as they are now, in any form

  // ---- training
  virtual void save_files(const RunFolder&) const {}          // Task::files
  virtual train::Learner learner(const Watching&) const = 0;  // refers to this run
  // What Set::test stands for: where nothing was held out to test, what validated.
  virtual Set held_out_set() const { return Set::test; }
  // Of it, decoded as the settings say.
  virtual Evaluation final_scores(const ShareDone& = {}) const = 0;

  // ---- use; the settings are those that the task makes for it
  virtual Evaluation evaluate(const Judged&, const Settings&, const ShareDone& = {}) const = 0;
  virtual std::vector<Predictions> predict(std::span<const Input>, const Settings&,
                                           const Predicting& = {}) const = 0;
  virtual std::vector<Example> examples(size_t n) const = 0;  // held out, of all sorts, at most n
  // What a model says of one input before anything is chosen, as tensors to keep: `ids` [T] and
  // `logits` [T,V] or [classes]; nothing where the task has no such numbers.
  virtual std::optional<Tensors> logits(const Input&) const { return {}; }
  // Of a set from its front, at most so many; none where there are no data.
  virtual std::vector<Solved> solved(Set, size_t /*most*/) const { return {}; }
  // Of a language model: each of these texts, token by token.
  virtual std::vector<Foreseen> foreseen(std::span<const Input>, const ShareDone& = {}) const {
    return {};
  }
  // For typed_input(): where rows of CSV have their class, as the settings of a prediction say if
  // there are any; empty where it is not known.
  virtual std::string class_column(const Settings* /*asked*/) const { return {}; }
  // For whoever looks inside: the blocks of a Transformer, at most so many held-out sequences
  // before them; nothing where the model is another.
  virtual std::optional<explain::BlocksAtWork> blocks(int64_t /*sequences*/) const { return {}; }
  // The model on one input; nothing where the task has no answer.
  virtual std::optional<Inside> inside(const Input&) const { return {}; }
  // A text as the model reads it, and which pieces it has no token for; none where it is not known.
  virtual std::vector<Piece> pieces(const Input&) const { return {}; }
  // At most so many, spread over what is judged.
  virtual std::vector<Input> inputs(const Judged&, size_t /*most*/) const { return {}; }
  virtual std::vector<report::Section> sections() const { return {}; }  // the page's, of the task
  // As transformers opens it; throws where that has no such architecture.
  virtual GivenBack given_back() const;
};

// A line for whoever looks at a run whose data are no longer those of its training; else nothing.
std::string changed_data(const Run&);

enum class Takes : uint8_t { text, pictures };

struct Task {
  std::string name;                    // as it is typed; the folder is called so
  std::string title;                   // of pages: "Translation"
  std::string about;                   // a line, for lists
  std::string examples;                // commands to try, a line each
  std::string demo;                    // what its built-in data ask of a model
  std::string data_field, data_about;  // what DATA on the command line sets, and what it is
  // Where DATA may be one file that says all: how its name ends.
  std::vector<std::string> data_endings = {};
  double seconds = 0;  // of one core, that a training on built-in data takes; 0: nobody measured
  Takes takes = Takes::text;
  std::string drawn = {};  // where it takes pictures: what built-in ones are called, as in scene:17
  bool scored = false;     // a prediction's score is printed with it
  std::vector<Measure> measures;   // the leading ones first
  std::vector<std::string> files;  // what goes with the weights, as vocabularies do

  std::unique_ptr<TaskConfig> (*config)();
  std::unique_ptr<Settings> (*evaluate_settings)();
  std::unique_ptr<Settings> (*predict_settings)();

  // A new run, or `former` to go on with: reads the data and makes the model, and writes nothing.
  std::unique_ptr<Run> (*begin)(const TaskConfig&, const RunFolder* former);
  std::unique_ptr<const Run> (*open)(const RunFolder&);  // with the weights that were kept
};

// For the functions above: make<MyConfig, TaskConfig>.
template <class T, class Base = Settings>
std::unique_ptr<Base> make() {
  return std::make_unique<T>();
}

std::span<const Task* const> task_table();
const Task& task(const std::string& name);  // throws, with the nearest name or all there are

}  // namespace fovea::tasks
