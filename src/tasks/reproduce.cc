#include "tasks/reproduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "fovea/error.h"
#include "io/folder.h"
#include "io/json.h"
#include "tasks/deal.h"
#include "tasks/train.h"

namespace fovea::tasks {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Trial, name, task, options)

// Scores are in order, which JSON of this kind does not keep.
void to_json(nlohmann::json& j, const Outcome& o) {
  j = {o.trial, o.seed, to_json(o.test).dump(), o.seconds};
}

void from_json(const nlohmann::json& j, Outcome& o) {
  o = {.trial = j.at(0),
       .seed = j.at(1),
       .test = evaluation_from_json(nlohmann::ordered_json::parse(j.at(2).get<std::string>())),
       .seconds = j.at(3)};
}

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string run_name(const Outcome& o) { return fmt::format("{}-{}", o.trial.name, o.seed); }

int64_t scaled(int64_t limit, double effort) {
  if (limit == 0) return 0;
  return std::max<int64_t>(1, std::lround(static_cast<double>(limit) * effort));
}

std::unique_ptr<TaskConfig> config_of(const Outcome& o, double effort) {
  Given options = o.trial.options;
  options["seed"] = std::to_string(o.seed);
  std::unique_ptr<TaskConfig> c = config_from(task(o.trial.task), options);
  c->train.steps = scaled(c->train.steps, effort);
  c->train.epochs = scaled(c->train.epochs, effort);
  c->train.minutes *= effort;
  return c;
}

// A finished run of these settings may be of other data all the same; one that goes on says so.
bool is_of(const RunFolder& folder, const Task& task, TaskConfig& config) {
  if (!folder.holds_run() || &folder.task() != &task) return false;
  const std::unique_ptr<TaskConfig> found = folder.config();
  found->fingerprint = config.fingerprint;
  make_paths_absolute(*found);
  make_paths_absolute(config);
  if (to_json(*found) != to_json(config)) return false;
  return !folder.is_finished() || changed_data(*task.open(folder)).empty();
}

// What an earlier run of the same settings found, or a new one does. False: interrupted.
bool find_or_train(const RunFolder& folder, Outcome& outcome, double effort,
                   const Watching& watching) {
  const Task& of = task(outcome.trial.task);
  std::unique_ptr<TaskConfig> config = config_of(outcome, effort);
  const bool same = is_of(folder, of, *config);
  Trained trained;
  if (same && folder.is_finished()) {
    trained = folder.results();
  } else {
    if (same) config = folder.config();
    trained = train_run(of, folder, *config, same ? Existing::go_on : Existing::replace, watching);
    if (trained.finished.why == train::Ended::interrupted) return false;
  }
  outcome.test = trained.test;
  outcome.seconds = trained.finished.seconds;
  return true;
}

// It is not a run's own, and no file that is written at the end is another's.
void check_place(const fs::path& out) {
  const RunFolder folder(out);
  if (!folder.is_there()) return;
  const bool results = fs::exists(folder / kResults), page = fs::exists(folder / kReportPage);
  if (folder.holds_run() || (page && !results) ||
      (results && !read_json(folder / kResults).contains("paper"))) {
    throw Error("reproduce", fmt::format("{} holds a {} that is not of a reproduction; --out takes "
                                         "another folder",
                                         out.string(),
                                         folder.holds_run() ? "run"
                                         : results          ? kResults
                                                            : kReportPage));
  }
}

void save(const fs::path& out, const Paper& paper, const Reproduced& r) {
  Json trials = Json::array();
  for (const Outcome& o : r.outcomes) {
    trials.push_back({{"name", run_name(o)},
                      {"task", o.trial.task},
                      {"seed", o.seed},
                      {"seconds", o.seconds},
                      {"test", to_json(o.test)}});
  }
  write_json(out / kResults, {{"paper", paper.name}, {"trials", trials}});
  report::write_page(out / kReportPage, r.page);
}

struct Reproduction {
  const Paper& paper;
  const fs::path& out;
  const ReproduceOptions& options;
  int64_t seeds;
  const Watching& watching;

  team::Team& team() const { return *watching.team; }
  // Of each process by itself.
  Watching own() const {
    Watching w = watching;
    w.team = &team::alone();
    return w;
  }
  ShareDone dealt() const { return {team(), nullptr, watching.stop}; }
};

// What the paper asks of a trained run. False: interrupted.
bool looked_inside(const Reproduction& it, const RunFolder& folder, Outcome& outcome) {
  if (it.paper.look_inside == nullptr) return true;
  if (it.watching.say) it.watching.say(folder.name() + ": looking inside");
  try {
    it.paper.look_inside(*folder.task().open(folder), outcome, stopping(it.own()));
  } catch (const train::Stopped&) {
    return false;
  }
  return true;
}

// Every row of every seed, trained or found, each by one process. False: interrupted.
bool train_all(const Reproduction& it, std::vector<Outcome>& outcomes) {
  std::vector<Outcome> planned;
  team::together(it.team(), [&] {
    for (const Trial& trial : it.paper.trials(it.options.data)) {
      for (int64_t s = 1; s <= it.seeds; ++s) {
        planned.push_back({.trial = trial, .seed = static_cast<uint64_t>(s)});
      }
    }
    check_place(it.out);
  });
  const auto work = [&](size_t i) -> std::vector<Outcome> {
    Outcome outcome = planned[i];
    const std::string name = run_name(outcome);
    if (it.watching.say) it.watching.say(fmt::format("{}: {} of {}", name, i + 1, planned.size()));
    const RunFolder folder(it.out / name);
    if (!find_or_train(folder, outcome, it.options.effort, it.own()) ||
        !looked_inside(it, folder, outcome)) {
      return {};
    }
    return {outcome};
  };
  deal(it.dealt(), planned.size(), work, [&](size_t, const std::vector<Outcome>& found) {
    outcomes.insert(outcomes.end(), found.begin(), found.end());
  });
  return outcomes.size() == planned.size();
}

// The same where nothing is trained.
bool measure_all(const Reproduction& it, std::vector<Outcome>& outcomes) {
  team::together(it.team(), [&] {
    if (!it.options.data.empty() || it.options.effort != 1) {
      throw Error("reproduce", fmt::format("{} trains nothing: it takes no --data and no --effort",
                                           it.paper.name));
    }
    check_place(it.out);
    if (it.team().is_first()) make_folder("reproduce", it.out);
  });
  bool stopped = false;
  const auto work = [&](size_t i) -> std::vector<Outcome> {
    if (it.watching.say) it.watching.say(fmt::format("seed {} of {}", i + 1, it.seeds));
    try {
      return it.paper.measure(i + 1, stopping(it.own()));
    } catch (const train::Stopped&) {
      return {};
    }
  };
  deal(it.dealt(), static_cast<size_t>(it.seeds), work,
       [&](size_t, const std::vector<Outcome>& found) {
         stopped = stopped || found.empty();
         outcomes.insert(outcomes.end(), found.begin(), found.end());
       });
  return !stopped;
}

}  // namespace

Reproduced reproduce(const Paper& paper, const fs::path& out, const ReproduceOptions& options,
                     const Watching& watching) {
  if (!(options.effort >= 0.01 && options.effort <= 100)) {
    throw Error("reproduce",
                fmt::format("--effort must be in [0.01, 100], found {}", options.effort));
  }
  const Reproduction it{paper, out, options, options.seeds > 0 ? options.seeds : paper.seeds,
                        watching};
  Reproduced r;
  expect_same_program(it.team(), {{"what they were asked",
                                   fmt::format("{}, data '{}', {} seeds, effort {}", paper.name,
                                               options.data, it.seeds, options.effort)}});
  try {
    r.interrupted = !(paper.measure ? measure_all : train_all)(it, r.outcomes);
  } catch (const train::Stopped&) {
    r.interrupted = true;
  }
  if (r.interrupted) return r;
  r.page = paper.page(r.outcomes);
  team::together(it.team(), [&] {
    if (it.team().is_first()) save(out, paper, r);
  });
  return r;
}

}  // namespace fovea::tasks
