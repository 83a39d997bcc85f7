#include "app/train.h"

#include <fmt/format.h>

#include <filesystem>

#include "app/options.h"
#include "app/progress.h"
#include "app/verbs.h"
#include "fovea/error.h"
#include "tasks/translate.h"

namespace fovea::app {
namespace {

namespace fs = std::filesystem;
using tasks::Fields;
using tasks::TranslateConfig;

struct Options {
  Given given;
  std::string data, out, config;
  bool resume = false, force = false;
};

void set_options(const Given& given, TranslateConfig& c) {
  tasks::from_options(given, [&](Fields& f) { tasks::visit(f, c); });
}

TranslateConfig config_from(Options& o) {
  if (!o.data.empty()) o.given["tsv"] = o.data;
  if (!o.config.empty()) {
    const fs::path file = o.config;
    TranslateConfig c = tasks::read_config(fs::is_directory(file) ? file : file.parent_path());
    set_options(o.given, c);
    return c;
  }
  TranslateConfig typed;
  set_options(o.given, typed);
  TranslateConfig c = tasks::defaults_for(typed.data);
  set_options(o.given, c);
  // A limit that was typed replaces the default one.
  if (o.given.contains("steps") || o.given.contains("minutes")) {
    if (!o.given.contains("epochs")) c.train.epochs = 0;
  }
  return c;
}

fs::path default_run(const TranslateConfig& c) {
  const std::string& file = c.data.tsv.empty() ? c.data.source : c.data.tsv;
  return fs::path("runs") /
         ("translate-" + (file.empty() ? c.data.builtin : fs::path(file).stem().string()));
}

// A resumed run is the run it was; only its limits may change.
TranslateConfig config_to_resume(const fs::path& run, const Options& o) {
  TranslateConfig c = tasks::read_config(run);
  for (const auto& [name, value] : o.given) {
    if (name != "steps" && name != "epochs" && name != "minutes") {
      throw Error("train",
                  fmt::format("--{} cannot change in a resumed run; only --steps, --epochs "
                              "and --minutes can",
                              name));
    }
  }
  set_options(o.given, c);
  return c;
}

void run_translate(Options& o) {
  TranslateConfig c = o.resume ? TranslateConfig() : config_from(o);
  const fs::path run = o.out.empty() ? default_run(c) : fs::path(o.out);
  if (o.resume) {
    c = config_to_resume(run, o);
  } else if (fs::exists(run / "config.json")) {
    if (!o.force) {
      throw Error("train", fmt::format("{} holds a run already; --resume goes on with it, --force "
                                       "replaces it, --out takes another folder",
                                       run.string()));
    }
    fs::remove_all(run);
  }
  print_trained(run, train_showing(run, c));
}

}  // namespace

tasks::Trained train_showing(const fs::path& run, const TranslateConfig& config) {
  ProgressLine line;
  const StopOnSignal signals;
  const tasks::Watching watching{
      .say = [&](const std::string& text) { line.say(text); },
      .progress = [&](const train::Progress& p) { line.show(p); },
      .stop = signals.flag(),
  };
  tasks::Trained trained = tasks::train_translate(run, config, watching);
  if (trained.finished.why == train::Ended::interrupted) {
    throw Interrupted{
        fmt::format("stopped at step {} and saved; go on with: fovea train translate "
                    "--out {} --resume",
                    trained.finished.steps, run.string())};
  }
  return trained;
}

void print_trained(const fs::path& run, const tasks::Trained& t) {
  fmt::print("{} steps in {}{}\n", t.finished.steps, duration(t.finished.seconds),
             t.finished.why == train::Ended::stopped_early ? ", stopped early" : "");
  print_evaluation(t.test);
  fmt::print("\nRun     {0}\nReport  {0}/report.html\nTry     fovea predict {0} --show \"…\"\n",
             run.string());
}

void print_evaluation(const tasks::Evaluation& e) {
  fmt::print("\n{} held-out sources\n", e.sentences);
  for (const auto& [name, value] : e.scores) fmt::print("  {:<12} {:8.3f}\n", name, value);
  if (e.by_length.size() < 2) return;
  fmt::print("\n  {:>12} {:>9} {:>8} {:>8} {:>8}\n", "source", "sentences", "bleu", "chrf",
             "exact");
  for (const tasks::Bucket& b : e.by_length) {
    fmt::print("  {:>12} {:>9}", fmt::format("{}–{}", b.low, b.high), b.sentences);
    for (const auto& [name, value] : b.scores) {
      if (name != "token_error") fmt::print(" {:8.2f}", value);
    }
    fmt::print("\n");
  }
}

void add_train(CLI::App& program) {
  CLI::App* verb = program.add_subcommand("train", "Train a model; writes a run folder");
  verb->require_subcommand(1);
  CLI::App* task = verb->add_subcommand(
      "translate",
      "Recurrent sequence to sequence, with or without attention.\n"
      "  fovea train translate                          built-in dates, 1 minute\n"
      "  fovea train translate pairs.tsv                your pairs, source<TAB>target a line\n"
      "  fovea train translate --src a.en.gz --tgt a.fr.gz --minutes 30\n"
      "  fovea train translate --out runs/x --resume    go on after a stop");
  auto o = std::make_shared<Options>();
  task->add_option("DATA", o->data, "Pairs, source<TAB>target a line; gzip too. None: built-in");
  task->add_option("--out", o->out, "The run folder [runs/translate-…]");
  task->add_flag("--resume", o->resume, "Go on with the run in --out");
  task->add_flag("--force", o->force, "Replace a run that is there");
  task->add_option("--config", o->config, "Repeat a run: its folder or config.json");
  auto shown = tasks::defaults_for({});
  add_fields(*task, o->given, [&](Fields& f) { tasks::visit(f, shown); });
  task->callback([o] { run_translate(*o); });
}

}  // namespace fovea::app
