#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "app/options.h"
#include "app/print.h"
#include "app/progress.h"
#include "app/train.h"
#include "app/verbs.h"
#include "fovea/runtime.h"
#include "report/label.h"
#include "tasks/paper.h"
#include "text/messages.h"

// The whole of it on built-in data: train a model, then show where it looks.
namespace fovea::app {
namespace {

constexpr const char* kTask = "translate";
constexpr size_t kShown = 4;

std::string bold(const std::string& text) {
  return stdout_has_colours() ? "\x1b[1m" + text + "\x1b[0m" : text;
}

// Draws where the run looked on what it held out; gives the last of it.
std::string show_examples(const tasks::Task& task, const tasks::RunFolder& folder) {
  const auto run = task.open(folder);
  const std::vector<tasks::Example> examples = run->examples(kShown);
  std::vector<tasks::Input> inputs;
  for (const tasks::Example& e : examples) inputs.push_back(e.input);
  const auto all = run->predict(inputs, *task.predict_settings(), {.maps = tasks::Maps::keep});
  for (size_t i = 0; i < inputs.size(); ++i) {
    const tasks::Prediction& best = all[i].front();
    const std::string& expected = examples[i].expected;
    print_out("\n{} → {} {}\n", bold(report::visible(name_of(inputs[i]))),
              bold(report::visible(best.text)),
              best.text == expected ? "✓" : "✗, expected " + report::visible(expected));
    for (const report::Picture& picture : best.pictures) {
      print_out("\n{}", terminal_text(picture));
    }
  }
  return inputs.empty() ? "…" : name_of(inputs.back());
}

// Where the program lies, unless a shell finds it by its name.
std::string whereabouts() {
  std::error_code failed;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed || self.filename() != "fovea" || self.parent_path().filename() == "bin") return "";
  return fmt::format("(the program is {})", std::filesystem::proximate(self, failed).string());
}

void print_next(const tasks::Task& task, const std::string& run, const std::string& input) {
  const auto line = [](const std::string& command, const std::string& what) {
    print_out("  {:<52} {}\n", command, what);
  };
  print_out("\n{}\n", bold("Next"));
  line(run + "/report.html", "curves, scores and examples, in a browser");
  line(fmt::format("fovea predict {} --show {}", text::shell_path(run), text::shell_quoted(input)),
       "");
  line(fmt::format("fovea train {} --help", task.name), "your own data, and every setting");
  for (const tasks::Paper* p : tasks::paper_table()) line("fovea reproduce " + p->name, p->about);
  line("fovea --help", whereabouts());
}

void run(const std::string& out, const tasks::Given& given, tasks::Existing existing) {
  const tasks::Task& task = tasks::task(kTask);
  print_out("{}\n{}\n{} threads, {}.\n\n", bold("Training: " + task.about), task.demo, threads(),
            isa());
  flush_printed();
  const tasks::RunFolder folder(out);
  const tasks::Trained trained =
      train_showing({task, folder, *tasks::config_from(task, given), existing});
  print_out("\n{}\nA column for each thing read, a row for each thing written.\n",
            bold("Where it looked, on what it never saw"));
  const std::string input = show_examples(task, folder);
  print_out("\n{}\n{} steps in {}; ", bold("What it scored"), trained.finished.steps,
            duration(trained.finished.seconds));
  print_out("{}", tasks::to_text(trained.test));
  print_next(task, out, input);
}

}  // namespace

void add_demo(CLI::App& program) {
  const tasks::Task& task = tasks::task(kTask);
  CLI::App* verb = program.add_subcommand(
      "demo", "Train a small model on built-in data and show where it looks; a minute");
  auto given = std::make_shared<tasks::Given>();
  add_fields(*verb, *given, *tasks::config_from(task, {}));
  for (CLI::Option* option : verb->get_options()) {
    if (option->get_name() != "--help") option->group("");  // taken, but not listed
  }
  auto out = std::make_shared<std::string>("runs/demo");
  auto force = std::make_shared<bool>(false);
  const CLI::Option* named =
      verb->add_option("--out", *out, "The run folder; runs/demo is replaced when it is there")
          ->check(not_empty)
          ->capture_default_str();
  verb->add_flag("--force", *force, "Replace a run in another folder, too");
  verb->footer(fmt::format("The settings of `fovea train {}` are taken too.", task.name));
  verb->callback([=] {
    const bool replaces = *force || named->count() == 0;
    run(*out, *given, replaces ? tasks::Existing::replace : tasks::Existing::refuse);
  });
}

}  // namespace fovea::app
