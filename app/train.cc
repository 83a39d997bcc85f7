#include "app/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "app/options.h"
#include "app/print.h"
#include "app/verbs.h"
#include "fovea/error.h"
#include "report/label.h"
#include "report/table_text.h"
#include "tasks/estimate.h"
#include "team/launched.h"
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
  bool resume = false, force = false, estimate = false;
  double gigabits = 10, microseconds = 30;  // of the network that is estimated
};

// Weights and time of one step here, and what comes of them on many machines. Processes that a
// launcher started measure at once, as they would compute; the slowest counts.
void print_estimate(const Task& task, TaskConfig& config, const TrainOptions& o, team::Team& team) {
  ProgressLine line;
  const team::Network network{o.gigabits * 1e9 / 8, o.microseconds * 1e-6};
  tasks::Watching watching;
  if (team.is_first()) watching.say = [&](const std::string& text) { line.say(text); };
  team::Work work;
  team::together(team, [&] { work = tasks::measured_work(task, config, watching); });
  work.seconds = std::ranges::max(team::gather(team, work.seconds));
  if (!team.is_first()) return;
  report::Table table{
      {"machines", "seconds a step", "computing", "sent", "memory", "fails every", "save every"},
      {}};
  const auto time = [](double seconds) {
    if (seconds < 100) return fmt::format("{:.0f} s", seconds);
    return seconds < 6000 ? fmt::format("{:.0f} min", seconds / 60)
                          : fmt::format("{:.0f} h", seconds / 3600);
  };
  for (const int64_t machines : {1, 2, 4, 8, 16, 100, 1000, 10000}) {
    const team::Estimate e = team::estimate(work, network, {}, machines);
    table.rows.push_back({fmt::format("{}", machines), fmt::format("{:.3g}", e.step_seconds),
                          fmt::format("{:.0f} %", 100 * e.efficiency),
                          fmt::format("{:.1f} MB", e.traffic / 1e6),
                          fmt::format("{:.1f} MB", e.memory / 1e6), time(3600 * e.failure_hours),
                          time(e.save_seconds)});
  }
  print_out("{}", report::to_text(table, ""));
  print_out(
      "\nOf {:.2f} million weights, {} {} a step on each machine, {:.3g} s on this one; {} "
      "Gbit/s and {} µs between them. `docs/scale.md` has the formulas.\n",
      static_cast<double>(work.weights) / 1e6, config.train.batches,
      config.train.batches == 1 ? "batch" : "batches", work.seconds, o.gigabits, o.microseconds);
}

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
  team::Team& team = team::launched();
  std::unique_ptr<TaskConfig> config;
  fs::path out = o.out;
  team::together(team, [&] {
    if (!o.resume || o.out.empty()) config = config_of(task, o);
    if (o.out.empty())
      out = fs::path("runs") / fmt::format("{}-{}", task.name, config->data_name());
    if (o.resume) config = config_to_resume(task, RunFolder(out), o);
  });
  if (o.estimate) return print_estimate(task, *config, o, team);
  const RunFolder folder(out);
  const tasks::Existing existing = o.resume  ? tasks::Existing::go_on
                                   : o.force ? tasks::Existing::replace
                                             : tasks::Existing::refuse;
  const tasks::Trained t = train_showing({task, folder, *config, existing}, team);
  if (!team.is_first()) return;
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
  sub->add_flag("--estimate", o->estimate,
                "Train nothing: time a step here and print what 1 to 10,000 machines make of it");
  sub->add_option("--bandwidth", o->gigabits, "--estimate: Gbit a second between machines [10]")
      ->check(above_zero);
  sub->add_option("--latency", o->microseconds, "--estimate: microseconds a message takes [30]")
      ->check(above_zero);
  sub->footer(fmt::format("Examples:\n{}\n\n{}", task.examples, verb.get_footer()));
  // What suits data of one's own depends on that there are some, not on which.
  nlohmann::ordered_json own =
      tasks::to_json(*tasks::config_from(task, {{task.data_field, "own"}}));
  own.erase(task.data_field);
  add_fields(*sub, o->given, *tasks::config_from(task, {}), own);
  sub->callback([o, &task] { run(task, *o); });
}

}  // namespace

Watcher::Watcher(team::Team& team) : watching_{.stop = signals_.flag(), .team = &team} {
  if (!team.is_first()) return;
  watching_.say = [this](const std::string& text) { line_.say(text); };
  watching_.progress = [this](const train::Progress& p) { line_.show(p); };
}

tasks::Trained train_showing(const ToTrain& t, team::Team& team) {
  const auto& [task, folder, config, existing] = t;
  const Watcher watcher(team);
  tasks::Trained trained = tasks::train_run(task, folder, config, existing, watcher.watching());
  if (trained.finished.why == train::Ended::interrupted) {
    team.set_over();
    throw Interrupted{
        fmt::format("stopped at step {} and saved; go on with: fovea train {} --out "
                    "{} --resume",
                    trained.finished.steps, task.name, text::shell_path(folder.path().string()))};
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
