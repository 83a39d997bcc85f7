#include "app/train.h"

#include <fmt/format.h>

#include <filesystem>

#include "app/options.h"
#include "app/print.h"
#include "app/progress.h"
#include "app/stop_on_signal.h"
#include "app/verbs.h"
#include "fovea/error.h"
#include "report/label.h"
#include "text/messages.h"

namespace fovea::app {
namespace {

namespace fs = std::filesystem;
using tasks::RunFolder;
using tasks::Task;
using tasks::TaskConfig;

struct TrainOptions {
  tasks::Given given;
  std::string data, out, config;
  bool resume = false, force = false;
};

std::unique_ptr<TaskConfig> config_of(const Task& task, const TrainOptions& o) {
  if (o.config.empty()) return tasks::config_from(task, o.given);
  std::error_code error;
  const fs::path file =
      fs::is_directory(o.config, error) ? RunFolder(o.config) / "config.json" : fs::path(o.config);
  auto c = tasks::config_in(file, task, o.given);
  if (!c->former_limits.empty()) {
    print_note(
        "fovea train: {} went on under other limits ({}); repeated from its beginning under "
        "those of its end, it may come to other weights\n",
        report::for_terminal(o.config), report::for_terminal(c->former_limits));
    c->former_limits.clear();
  }
  if (!o.given.empty()) c->fingerprint.clear();  // not that run again but a new one
  return c;
}

// A resumed run is the run it was; only its limits may change.
std::unique_ptr<TaskConfig> config_to_resume(const Task& task, const RunFolder& folder,
                                             const TrainOptions& o) {
  auto c = folder.config_of(task);
  tasks::change_limits(task, *c, o.given);
  return c;
}

void run(const Task& task, TrainOptions o) {
  if (!o.data.empty() && o.given.contains(task.data_field)) {
    throw Error("train", fmt::format("DATA and --{} are the same setting; name one of them",
                                     task.data_field));
  }
  if (o.resume && o.force) {
    throw Error("train", "--resume goes on with a run, --force replaces it; take one of them");
  }
  if (!o.data.empty()) o.given[task.data_field] = o.data;
  const auto fresh = o.resume && !o.out.empty() ? nullptr : config_of(task, o);
  const RunFolder folder(o.out.empty() ? fs::path("runs") /
                                             fmt::format("{}-{}", task.name, fresh->data_name())
                                       : fs::path(o.out));
  const auto resumed = o.resume ? config_to_resume(task, folder, o) : nullptr;
  const tasks::Former former = o.resume  ? tasks::Former::go_on
                               : o.force ? tasks::Former::replace
                                         : tasks::Former::refuse;
  const tasks::Trained t = train_showing(task, folder, o.resume ? *resumed : *fresh, former);
  print_out("{} steps in {}{}\n\n{}", t.finished.steps, duration(t.finished.seconds),
            t.finished.why == train::Ended::stopped_early ? ", stopped early" : "",
            tasks::to_text(t.test));
  print_out("\nRun     {0}\nReport  {0}/report.html\nTry     {1}\n",
            report::for_terminal(folder.path().string()), report::for_terminal(t.to_try));
}

void add_task(CLI::App& verb, const Task& task) {
  CLI::App* sub = verb.add_subcommand(task.name, task.about);
  auto o = std::make_shared<TrainOptions>();
  sub->add_option("DATA", o->data, task.data_about + ". None: built-in")->check(not_empty);
  sub->add_option("--out", o->out, fmt::format("The run folder [runs/{}-…]", task.name))
      ->check(not_empty);
  sub->add_flag("--resume", o->resume, "Go on with the run in --out");
  sub->add_flag("--force", o->force, "Replace a run that is there");
  sub->add_option("--config", o->config,
                  "Repeat a run: its folder, or a file like its config.json; options change it")
      ->check(not_empty);
  sub->footer(fmt::format("Examples:\n{}\n\n{}", task.examples, verb.get_footer()));
  // What suits data of one's own depends on that there are some, not on which.
  nlohmann::ordered_json own =
      tasks::to_json(*tasks::config_from(task, {{task.data_field, "own"}}));
  own.erase(task.data_field);
  add_fields(*sub, o->given, *tasks::config_from(task, {}), own);
  sub->callback([o, &task] { run(task, *o); });
}

}  // namespace

tasks::Trained train_showing(const Task& task, const RunFolder& folder, TaskConfig& config,
                             tasks::Former former) {
  ProgressLine line;
  const StopOnSignal signals;
  tasks::Trained trained =
      tasks::train_run(task, folder, config, former,
                       {.say = [&](const std::string& text) { line.say(text); },
                        .progress = [&](const train::Progress& p) { line.show(p); },
                        .stop = signals.flag()});
  if (trained.finished.why == train::Ended::interrupted) {
    throw Interrupted{
        fmt::format("stopped at step {} and saved; go on with: fovea train {} --out "
                    "{} --resume",
                    trained.finished.steps, task.name, text::shell_quoted(folder.path().string()))};
  }
  return trained;
}

void add_train(CLI::App& program) {
  CLI::App* verb = program.add_subcommand("train", "Train a model; writes a run folder");
  verb->require_subcommand(0, 1);
  for (const Task* task : tasks::task_table()) add_task(*verb, *task);
  verb->allow_extras();  // so that a misspelt task is answered with the nearest
  verb->callback([verb] {
    if (!verb->get_subcommands().empty()) return;
    const std::vector<std::string> rest = verb->remaining();
    if (rest.empty()) {
      print_out("{}", verb->help("fovea"));
    } else if (rest.front().starts_with('-')) {
      throw Error("train", "name a task before its options; `fovea train` lists them");
    } else {
      tasks::task(rest.front());  // throws
    }
  });
}

}  // namespace fovea::app
