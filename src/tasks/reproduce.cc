#include "tasks/reproduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tasks/json_file.h"
#include "tasks/train.h"

namespace fovea::tasks {
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

bool is_of(const RunFolder& folder, const Task& task, TaskConfig& config) {
  if (!folder.holds_run() || &folder.task() != &task) return false;
  const std::unique_ptr<TaskConfig> found = folder.config();
  found->fingerprint = config.fingerprint;
  return to_json(*found) == to_json(config);
}

// What an earlier run of the same settings found, or a new one does. False: interrupted.
bool find_or_train(const RunFolder& folder, Outcome& outcome, double effort,
                   const Watching& watching) {
  const Task& of = task(outcome.trial.task);
  std::unique_ptr<TaskConfig> config = config_of(outcome, effort);
  Trained trained;
  if (folder.holds_run() && !is_of(folder, of, *config)) folder.remove();
  if (folder.is_finished()) {
    trained = folder.results();
  } else {
    if (folder.holds_run()) config = folder.config();
    trained = train_run(of, folder, *config, watching);
    if (trained.finished.why == train::Ended::interrupted) return false;
  }
  outcome.test = trained.test;
  outcome.seconds = trained.finished.seconds;
  return true;
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
  write_json(out / "results.json", {{"paper", paper.name}, {"trials", trials}});
  report::write_page(out / "report.html", r.page);
}

}  // namespace

Reproduced reproduce(const Paper& paper, const fs::path& out, const ReproduceOptions& options,
                     const Watching& watching) {
  std::vector<Outcome> planned;
  const int64_t seeds = options.seeds > 0 ? options.seeds : paper.seeds;
  for (const Trial& trial : paper.trials(options.data)) {
    for (int64_t s = 1; s <= seeds; ++s) {
      planned.push_back({.trial = trial, .seed = static_cast<uint64_t>(s)});
    }
  }
  RunFolder(out).make();
  Reproduced r;
  for (Outcome& outcome : planned) {
    const std::string name = run_name(outcome);
    if (watching.say) {
      watching.say(fmt::format("{}: {} of {}", name, r.outcomes.size() + 1, planned.size()));
    }
    if (!find_or_train(RunFolder(out / name), outcome, options.effort, watching)) {
      r.interrupted = true;
      return r;
    }
    r.outcomes.push_back(std::move(outcome));
  }
  r.page = paper.page(r.outcomes);
  save(out, paper, r);
  return r;
}

}  // namespace fovea::tasks
