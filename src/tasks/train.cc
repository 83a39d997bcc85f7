#include "tasks/train.h"

#include <fmt/format.h>

#include "fovea/error.h"
#include "tasks/page.h"

namespace fovea::tasks {
namespace {

void check_same_data(const TaskConfig& former, const std::string& found) {
  if (former.fingerprint.empty() || former.fingerprint == found) return;
  throw Error("train", fmt::format("the data changed since this run began (fingerprint {}, was "
                                   "{}); start a new run",
                                   found, former.fingerprint));
}

}  // namespace

Trained train_run(const Task& task, const RunFolder& folder, const TaskConfig& config,
                  const Watching& watching) {
  const bool goes_on = folder.holds_run();
  const std::unique_ptr<TaskConfig> former = goes_on ? folder.config_of(task) : nullptr;
  const std::unique_ptr<Run> run = task.begin(folder, config);
  check_same_data(config, run->config().fingerprint);
  if (goes_on) check_same_data(*former, run->config().fingerprint);

  train::Learner learner = run->learner(watching);
  folder.make();
  if (!goes_on) run->save_files(folder);
  folder.save_config(task, run->config());

  Trained trained;
  trained.finished =
      train::train(folder.path(), learner, run->config().train, watching.progress, watching.stop);
  if (trained.finished.why == train::Ended::interrupted) return trained;
  try {
    trained.test = run->final_scores(stopping(watching));
  } catch (const train::Stopped&) {
    trained.finished.why = train::Ended::interrupted;
    return trained;
  }
  folder.save_results(trained);
  report::write_page(folder / "report.html", page_of(folder, *run, trained));
  return trained;
}

}  // namespace fovea::tasks
