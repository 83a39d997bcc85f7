#include "tasks/train.h"

#include <fmt/format.h>

#include "fovea/error.h"
#include "tasks/page.h"
#include "train/checkpoint.h"
#include "train/loop.h"

namespace fovea::tasks {
namespace {

void check_same_data(const TaskConfig& former, const std::string& found) {
  if (former.fingerprint.empty() || former.fingerprint == found) return;
  throw Error("train", fmt::format("the data changed since this run began (fingerprint {}, was "
                                   "{}); start a new run",
                                   found, former.fingerprint));
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

void check_former(const RunFolder& folder, Run& run, const train::Learner& learner,
                  const TaskConfig& former) {
  check_same_data(former, run.config().fingerprint);
  const train::TrainConfig& c = run.config().train;
  if (const auto at =
          train::read_state(folder / "state.safetensors", train::identity_of(learner, c))) {
    check_limits(c, former.train, *at);
  }
}

}  // namespace

Trained train_run(const Task& task, const RunFolder& folder, const TaskConfig& config,
                  Former former, const Watching& watching) {
  Claim claim(folder, task, former);
  const std::unique_ptr<Run> run = task.begin(config, claim.goes_on() ? &folder : nullptr);
  check_same_data(config, run->config().fingerprint);
  train::Learner learner = run->learner(watching);
  train::check(learner, run->config().train);
  if (claim.goes_on()) check_former(folder, *run, learner, *folder.config_of(task));

  claim.make_room();
  if (!claim.goes_on()) run->save_files(folder);
  folder.save_config(task, run->config());
  const auto progress = [&](const train::Progress& p) {
    claim.settle();
    if (watching.progress) watching.progress(p);
  };
  Trained trained;
  trained.finished =
      train::train(claim.log(), learner, run->config().train, progress, watching.stop);
  if (trained.finished.why == train::Ended::interrupted) return trained;
  trained.test = run->final_scores();
  folder.save_results(trained);
  report::write_page(folder / "report.html", page_of(folder, *run, trained));
  return trained;
}

}  // namespace fovea::tasks
