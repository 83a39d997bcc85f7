#include "tasks/train.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "fovea/error.h"
#include "fovea/text.h"
#include "report/label.h"
#include "tasks/looked.h"
#include "tasks/page.h"
#include "tasks/speed.h"
#include "text/messages.h"
#include "train/checkpoint.h"
#include "train/loop.h"

namespace fovea::tasks {
namespace {

namespace fs = std::filesystem;

void check_same_data(const TaskConfig& former, const std::string& found, const char* what_to_do) {
  if (former.fingerprint.empty() || former.fingerprint == found) return;
  throw Error("train", fmt::format("the data changed since this run began (fingerprint {}, was "
                                   "{}); {}",
                                   found, former.fingerprint, what_to_do));
}

std::string text_of_limits(const train::TrainConfig& c) {
  std::vector<std::string> limits;
  if (c.steps > 0) limits.push_back(fmt::format("{} steps", c.steps));
  if (c.epochs > 0) limits.push_back(fmt::format("{} epochs", c.epochs));
  if (c.minutes > 0) limits.push_back(fmt::format("{} minutes", c.minutes));
  return fmt::format("{}", fmt::join(limits, ", "));
}

// A limit that was changed to one that lies behind would be said in config.json and not be done.
void check_limits(const train::TrainConfig& c, const train::TrainConfig& former,
                  const train::RunState& at) {
  const auto expect_ahead = [](const char* name, auto limit, auto before, auto done) {
    if (limit == 0 || limit == before || limit >= done) return;
    throw Error("train", fmt::format("--{} {}: the run has done {} already", name, limit, done));
  };
  expect_ahead("steps", c.steps, former.steps, at.step);
  expect_ahead("epochs", c.epochs, former.epochs, at.epoch);
  expect_ahead("minutes", c.minutes, former.minutes, at.seconds / 60);
}

// That it is the former run which goes on; its limits may be others, and then both are remembered.
void go_on_with(const RunFolder& folder, const TaskConfig& former, TaskConfig& c,
                const train::Learner& learner) {
  check_same_data(former, c.fingerprint, "start a new run");
  c.former_limits = former.former_limits;
  const auto at = train::read_state(folder / "state.safetensors", identity_of(learner, c.train));
  if (!at) return;
  check_limits(c.train, former.train, *at);
  if (at->step == 0 || text_of_limits(c.train) == text_of_limits(former.train)) return;
  c.former_limits += fmt::format("{}{} until step {}", c.former_limits.empty() ? "" : "; ",
                                 text_of_limits(former.train), at->step);
}

// Data that lie in a run would go with it when it is replaced.
void check_data_stay(const RunFolder& folder, TaskConfig& config) {
  for (const std::string& file : files_named_in(config)) {
    std::error_code error;
    const fs::path place = fs::canonical(file, error);
    if (error || !fs::equivalent(place.parent_path(), folder.path(), error) || error) continue;
    throw Error("train", fmt::format("{} lies in {}, whose run is to be replaced; --out takes "
                                     "another folder",
                                     file, folder.path().string()));
  }
}

// The one whose name is shortest; of a text, what a shell takes: its beginning, in one line.
std::optional<Input> short_input(const std::vector<Example>& examples) {
  constexpr size_t kMost = 60;  // characters
  const auto length = [](const Example& e) {
    const size_t n = name_of(e.input).size();
    return n == 0 ? std::numeric_limits<size_t>::max() : n;
  };
  const auto shortest = std::ranges::min_element(examples, {}, length);
  if (shortest == examples.end()) return {};
  const auto* whole = std::get_if<Text>(&shortest->input);
  if (whole == nullptr) return shortest->input;
  std::vector<std::string> all = text::characters(report::for_terminal(whole->text));
  all.resize(std::min(all.size(), kMost));
  std::ranges::replace(all, "\n", " ");
  return Text{fmt::format("{}", fmt::join(all, ""))};
}

// A prediction on something that was held out, and where it looked if it looks at all.
std::string command_to_try(const Task& task, const RunFolder& folder, const Run& run) {
  constexpr size_t kExamples = 8;
  const std::optional<Input> found = short_input(run.examples(kExamples));
  const std::string name = text::shell_quoted(folder.path().string());
  const std::string input = found ? name_of(*found) : "";
  if (input.empty()) return fmt::format("fovea predict {} --help", name);
  const auto predicted = run.predict({&*found, 1}, *task.predict_settings(), {.maps = Maps::keep});
  const Prediction best = predicted.front().empty() ? Prediction() : predicted.front().front();
  return fmt::format("fovea predict {}{} {}{}", name, best.pictures.empty() ? "" : " --show",
                     input.starts_with('-') ? "-- " : "", text::shell_quoted(input));
}

}  // namespace

Trained train_run(const Task& task, const RunFolder& folder, TaskConfig& config, Former former,
                  const Watching& watching) {
  if (former == Former::replace) check_data_stay(folder, config);
  Claim claim(folder, task, former);
  const std::unique_ptr<Run> run =
      task.begin(*as_saved(task, config), claim.goes_on() ? &folder : nullptr);
  const std::unique_ptr<TaskConfig> to_save = run->copy_of_config();
  to_save->fingerprint = run->fingerprint();
  make_paths_absolute(*to_save);
  train::Learner learner = run->learner(watching);
  train::check(learner, to_save->train);
  if (claim.goes_on()) {
    go_on_with(folder, *folder.config_of(task), *to_save, learner);
  } else {
    check_same_data(config, to_save->fingerprint, "name them, to train with what is there now");
  }

  claim.make_room();
  if (!claim.goes_on()) run->save_files(folder);
  folder.save_config(task, *to_save);
  LookKeeper looked(task, folder, *run, claim.goes_on());
  SpeedLog speed(folder, claim.goes_on());
  if (learner.validate) {
    learner.validate = [&looked, validate = learner.validate] {
      train::Scores scores = validate();
      looked.look();
      return scores;
    };
  }
  const int64_t begun_at = claim.goes_on() && folder.is_finished()
                               ? folder.results().finished.steps
                               : std::numeric_limits<int64_t>::max();
  const auto went_on = [&](int64_t step) {
    if (step > begun_at) folder.remove_results();
  };
  const auto progress = [&](const train::Progress& p) {
    claim.settle();
    went_on(p.step);
    speed.add(p);
    if (p.validated != nullptr) looked.keep(p.step);
    if (watching.progress) watching.progress(p);
  };
  Trained trained;
  trained.finished = train::train(claim.log(), learner, to_save->train, progress, watching.stop);
  went_on(trained.finished.steps);
  if (trained.finished.why == train::Ended::interrupted) return trained;
  try {
    trained.test = run->final_scores(stopping(watching));
  } catch (const train::Stopped&) {
    trained.finished.why = train::Ended::interrupted;
    return trained;
  }
  claim.log().expect_in_place();
  folder.save_results(trained);
  report::write_page(folder / kReportPage, page_of(folder, *run, trained));
  trained.to_try = command_to_try(task, folder, *run);
  return trained;
}

}  // namespace fovea::tasks
