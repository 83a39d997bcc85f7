#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/options.h"
#include "app/print.h"
#include "app/progress.h"
#include "app/shared.h"
#include "app/verbs.h"
#include "tasks/run_folder.h"
#include "tasks/task.h"

namespace fovea::app {
namespace {

struct EvalOptions {
  std::string run;
  tasks::Judged what;
  std::string set = tasks::name_of(tasks::Set::test);
  tasks::Given given;  // the task's own
  bool json = false;
};

void run(EvalOptions o) {
  for (const tasks::Set s : {tasks::Set::train, tasks::Set::valid, tasks::Set::test}) {
    if (o.set == tasks::name_of(s)) o.what.set = s;
  }
  team::Team& team = team::launched();
  std::unique_ptr<tasks::Settings> settings;
  std::unique_ptr<const tasks::Run> opened;
  team::together(team, [&] {
    const tasks::RunFolder folder(o.run);
    settings = folder.task().evaluate_settings();
    tasks::from_options(o.given, *settings);
    opened = folder.task().open(folder);
  });
  tasks::expect_same_run(team, *opened, o.what, *settings);
  ProgressLine line;
  say_changed_data(team, line, *opened, o.what);
  const tasks::Evaluation e =
      opened->evaluate(o.what, *settings, showing(team, line, "evaluating"));
  if (!team.is_first()) return;
  for (const std::string& warning : e.warnings) line.say(warning);
  if (o.json) {
    print_out("{}\n", tasks::to_json(e).dump(2));
  } else {
    print_out("\n{}", tasks::to_text(e));
  }
}

}  // namespace

void add_eval(CLI::App& program, const Arguments& typed) {
  CLI::App* verb = program.add_subcommand("eval",
                                          "Score a trained run, in whole and by parts.\n"
                                          "  fovea eval RUN               what it held out itself\n"
                                          "  fovea eval RUN DATA --json   other data of the kind");
  auto o = std::make_shared<EvalOptions>();
  verb->add_option("RUN", o->run, "The run folder")->required()->check(not_empty);
  verb->add_option("DATA", o->what.file, "Data as its task takes them; none: the run's own")
      ->check(not_empty);
  verb->add_option("--set", o->set, "Which of the run's own sets")
      ->check(CLI::IsMember({"train", "valid", "test"}))
      ->capture_default_str();
  verb->add_flag("--json", o->json, "For programs to read");
  add_task_options(*verb, o->given, typed, &tasks::Task::evaluate_settings);
  verb->callback([o] { run(*o); });
}

}  // namespace fovea::app
