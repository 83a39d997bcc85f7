#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "app/progress.h"
#include "app/train.h"
#include "app/verbs.h"
#include "fovea/runtime.h"
#include "tasks/config.h"

// The whole of it on built-in data: train the date translator, then show where it looks.
namespace fovea::app {
namespace {

namespace fs = std::filesystem;

constexpr size_t kShown = 4;

std::string bold(const std::string& text) {
  return stdout_has_colours() ? "\x1b[1m" + text + "\x1b[0m" : text;
}

// Held-out dates of different lengths.
std::vector<text::Pair> some_of(const std::vector<text::Pair>& pairs) {
  std::vector<text::Pair> sorted = pairs, some;
  std::stable_sort(sorted.begin(), sorted.end(), [](const text::Pair& a, const text::Pair& b) {
    return a.source.size() < b.source.size();
  });
  for (size_t i = 0; i < kShown; ++i)
    some.push_back(sorted[(2 * i + 1) * sorted.size() / (2 * kShown)]);
  return some;
}

void show_dates(const fs::path& run) {
  const tasks::Translator t = tasks::load_translator(run);
  const auto held_out = tasks::load_data(t.config.data, t.config.train.seed).pairs.test;
  std::vector<std::string> lines;
  const std::vector<text::Pair> pairs = some_of(held_out);
  for (const text::Pair& p : pairs) lines.push_back(p.source);
  const auto all = tasks::translate(t, lines, {.weights = true});
  const auto ink = stdout_has_colours() ? report::Ink::colour : report::Ink::plain;
  for (size_t i = 0; i < lines.size(); ++i) {
    const tasks::Translation& best = all[i].front();
    const bool right = best.text == pairs[i].target;
    fmt::print("\n{} → {} {}\n\n{}", bold(lines[i]), bold(best.text),
               right ? "✓" : "✗, expected " + pairs[i].target,
               report::to_text(best.map, ink, terminal_width()));
  }
}

void run(const std::string& out) {
  fmt::print(
      "{}\n{} threads, {}. The model reads a date as people write it, in nine languages,\n"
      "letter by letter, and writes it as yyyy-mm-dd; at each character it writes, it "
      "looks.\n\n",
      bold("Training the date translator"), threads(), isa());
  std::fflush(stdout);
  const fs::path folder = out;
  if (fs::exists(folder / "config.json")) fs::remove_all(folder);
  tasks::TranslateConfig c = tasks::defaults_for({});
  const tasks::Trained trained = train_showing(folder, c);
  fmt::print("\n{}\nA column for each character read, a row for each character written.\n",
             bold("Where it looked, on dates it never saw"));
  show_dates(folder);
  fmt::print("\n{}\n", bold("What it scored"));
  fmt::print("{} steps in {}; on {} dates it never saw:\n", trained.finished.steps,
             duration(trained.finished.seconds), trained.test.sentences);
  for (const auto& [name, value] : trained.test.scores) {
    if (name == "exact") fmt::print("  {:.2f} % of them right to the last character\n", value);
    if (name == "token_error") fmt::print("  {:.2f} % of the characters wrong\n", value);
  }
  fmt::print(
      "\n{1}\n"
      "  {0}/report.html                                 curves, scores and alignments, in a "
      "browser\n"
      "  fovea predict {0} --show \"den 24. Dezember 1999\"\n"
      "  fovea train translate pairs.tsv                      your own pairs, source<TAB>target\n"
      "  fovea reproduce bahdanau2015                         why attention: quality by length\n"
      "  fovea --help                                         (the program is build/fovea)\n",
      folder.string(), bold("Next"));
}

}  // namespace

void add_demo(CLI::App& program) {
  CLI::App* verb = program.add_subcommand(
      "demo", "Train the date translator on built-in data and show where it looks; a minute");
  auto out = std::make_shared<std::string>("runs/demo");
  verb->add_option("--out", *out, "The run folder, replaced when it is there")
      ->capture_default_str();
  verb->callback([out] { run(*out); });
}

}  // namespace fovea::app
