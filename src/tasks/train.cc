#include "tasks/train.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "fovea/error.h"
#include "fovea/text.h"
#include "report/label.h"
#include "tasks/deal.h"
#include "tasks/looked.h"
#include "tasks/page.h"
#include "tasks/speed.h"
#include "team/team.h"
#include "text/messages.h"
#include "train/checkpoint.h"
#include "train/loop.h"

namespace fovea::tasks {
namespace {

namespace fs = std::filesystem;

struct Training {
  const Task& task;
  const RunFolder& folder;
  TaskConfig& config;
  Existing existing;
  const Watching& watching;
};

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
  const std::string name = text::shell_path(folder.path().string());
  const std::string input = found ? name_of(*found) : "";
  if (input.empty()) return fmt::format("fovea predict {} --help", name);
  const auto predicted = run.predict({&*found, 1}, *task.predict_settings(), {.maps = Maps::keep});
  const Prediction best = predicted.front().empty() ? Prediction() : predicted.front().front();
  return fmt::format("fovea predict {}{} {}{}", name, best.pictures.empty() ? "" : " --show",
                     input.starts_with('-') ? "-- " : "", text::shell_quoted(input));
}

// ---- One run, by all ranks --------------------------------------------------------------------

void expect_alike_settings(const Training& t, team::Team& team) {
  std::map<std::string, std::string> facts;
  const nlohmann::ordered_json settings = to_json(t.config);
  for (const auto& [name, value] : settings.items()) facts["--" + name] = value.dump();
  expect_same_program(team, std::move(facts));
}

// What is trained: the same on every rank.
struct StartedRun {
  std::unique_ptr<Run> run;
  std::unique_ptr<TaskConfig> config;
  train::Learner learner;
};

StartedRun started(const Training& t, const team::Team& team) {
  const bool goes_on = t.existing == Existing::go_on;
  StartedRun b;
  b.run = t.task.begin(*as_saved(t.task, t.config), goes_on ? &t.folder : nullptr);
  b.config = b.run->copy_of_config();
  b.config->fingerprint = b.run->fingerprint();
  make_paths_absolute(*b.config);
  b.learner = b.run->learner(t.watching);
  train::check(b.learner, b.config->train);
  if (!goes_on) {
    check_same_data(t.config, b.config->fingerprint, "name them, to train with what is there now");
  } else if (team.is_first()) {
    go_on_with(t.folder, *t.folder.config_of(t.task), *b.config, b.learner);
  }
  return b;
}

// What the first rank keeps in the folder beside the log.
class FolderKeeper {
 public:
  FolderKeeper(const Training& t, StartedRun& b, Claim& claim)
      : folder_(t.folder),
        watching_(t.watching),
        claim_(claim),
        looked_(t.task, t.folder, *b.run, claim.goes_on()),
        speed_(t.folder, claim.goes_on()),
        begun_at_(claim.goes_on() && t.folder.is_finished() ? t.folder.results().finished.steps
                                                            : std::numeric_limits<int64_t>::max()) {
    if (!b.learner.validate) return;
    b.learner.validate = [this, validate = b.learner.validate] {
      train::Scores scores = validate();
      looked_.look();
      return scores;
    };
  }
  void went_on(int64_t step) const {
    if (step > begun_at_) folder_.remove_results();
  }
  void report(const train::Progress& p) {
    claim_.settle();
    went_on(p.step);
    speed_.add(p);
    if (p.validated != nullptr) looked_.keep(p.step);
    if (watching_.progress) watching_.progress(p);
  }

 private:
  const RunFolder& folder_;
  const Watching& watching_;
  Claim& claim_;
  LookKeeper looked_;
  SpeedLog speed_;
  const int64_t begun_at_;
};

void write_report(const Training& t, const Run& run, Claim& claim, Trained& trained) {
  claim.log().expect_in_place();
  t.folder.save_results(trained);
  report::write_page(t.folder / kReportPage, page_of(t.folder, run, trained));
  trained.to_try = command_to_try(t.task, t.folder, run);
}

}  // namespace

Trained train_run(const Task& task, const RunFolder& folder, TaskConfig& config, Existing existing,
                  const Watching& watching) {
  const Training t{task, folder, config, existing, watching};
  team::Team& team = *watching.team;
  expect_alike_settings(t, team);
  const bool first = team.is_first();
  std::optional<Claim> claim;
  team::together(team, [&] {
    if (first && t.existing == Existing::replace) check_data_stay(t.folder, t.config);
    if (first) claim.emplace(t.folder, t.task, t.existing);
  });
  StartedRun b;
  team::together(team, [&] { b = started(t, team); });
  team::expect_alike(team, {{"their data (fingerprint)", b.config->fingerprint}});

  std::optional<FolderKeeper> kept;
  team::together(team, [&] {
    if (!first) return;
    claim->make_room();
    if (!claim->goes_on()) b.run->save_files(t.folder);
    t.folder.save_config(t.task, *b.config);
    kept.emplace(t, b, *claim);
  });
  Trained trained;
  trained.finished = train::train({.log = first ? &claim->log() : nullptr,
                                   .team = team,
                                   .report = [&](const train::Progress& p) { kept->report(p); },
                                   .stop = watching.stop},
                                  b.learner, b.config->train);
  if (first) kept->went_on(trained.finished.steps);
  if (trained.finished.why == train::Ended::interrupted) return trained;
  try {
    trained.test = b.run->final_scores(stopping(watching));
  } catch (const train::Stopped&) {
    trained.finished.why = train::Ended::interrupted;
    return trained;
  }
  team::together(team, [&] {
    if (first) write_report(t, *b.run, *claim, trained);
  });
  return trained;
}

}  // namespace fovea::tasks
