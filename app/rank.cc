#include "tasks/rank.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/options.h"
#include "app/outputs.h"
#include "app/print.h"
#include "app/progress.h"
#include "app/verbs.h"
#include "fovea/error.h"
#include "report/table_text.h"
#include "tasks/run_folder.h"

namespace fovea::app {
namespace {

using Json = nlohmann::ordered_json;

struct RankOptions {
  std::string run, svg, png;
  tasks::Given given;  // of the fresh model
  bool json = false;
};

void check_picture(const std::string& file, const std::string& ending, const std::string& run) {
  if (file.empty()) return;
  if (!file.ends_with("." + ending)) {
    throw Error("rank", fmt::format("--{0} takes a FILE.{0}, found {1}", ending, file));
  }
  Reads reads;
  if (!run.empty()) reads.runs = {run};
  check_output({"rank", file}, reads);
}

// Of a run, all but the number of sequences is its own.
void check_given(const RankOptions& o) {
  if (o.run.empty()) return;
  for (const auto& [name, value] : o.given) {
    if (name == "sequences") continue;
    throw Error("rank", fmt::format("--{} is of a fresh model, and {} is a run", name, o.run));
  }
}

struct Measured {
  std::string title;
  Json settings;
  std::vector<explain::RankCurve> curves;
};

Measured measure(const RankOptions& o) {
  tasks::FreshSettings fresh;
  tasks::from_options(o.given, fresh);
  const explain::FreshConfig& c = fresh.config;
  ProgressLine line;
  const auto progress = [&](double done) { line.show("through the blocks", done); };
  if (o.run.empty()) {
    return {fmt::format("A fresh model: {} blocks of {}, {} heads; {} sequences of {}", c.blocks,
                        c.depth, c.heads, c.sequences, c.length),
            tasks::to_json(fresh), tasks::rank_fresh(c, progress)};
  }
  const tasks::RunFolder folder(o.run);
  const auto opened = folder.task().open(folder);
  if (const std::string changed = tasks::changed_data(*opened); !changed.empty()) {
    line.say(changed);
  }
  return {fmt::format("{}: {}", folder.name(), opened->config().model()),
          {{"run", o.run}, {"sequences", c.sequences}},
          tasks::rank_run(*opened, c.sequences, progress)};
}

void run(const RankOptions& o) {
  check_given(o);
  check_picture(o.svg, "svg", o.run);
  check_picture(o.png, "png", o.run);
  const Measured m = measure(o);
  std::string text = m.title + "\nRelative residual ‖X − 1·mean‖/‖X‖ of a sequence's rows\n";
  for (const report::Table& table : tasks::tables_of(m.curves)) {
    text += "\n" + report::to_text(table);
  }
  if (o.json)
    text = Json{{"model", m.settings}, {"curves", tasks::to_json(m.curves)}}.dump(2) + "\n";
  for (const std::string& file : {o.svg, o.png}) {
    if (!file.empty()) report::write(file, tasks::charts_of(m.curves));
  }
  print_out("{}", text);
}

}  // namespace

void add_rank(CLI::App& program) {
  CLI::App* verb = program.add_subcommand(
      "rank",
      "How alike the rows of a sequence become with depth: for attention alone, with skips, with\n"
      "MLPs, with both; with layer norm and without. Residuals ‖X − 1·mean‖/‖X‖, by layer.\n"
      "  fovea rank                          a fresh BERT-base\n"
      "  fovea rank --blocks 24 --query-depth 1024 --heads 16 --svg curves.svg\n"
      "  fovea rank RUN --json               a trained Transformer, on what it held out");
  auto o = std::make_shared<RankOptions>();
  verb->add_option("RUN", o->run, "The folder of a run with a Transformer; none: a fresh model")
      ->check(not_empty);
  tasks::FreshSettings settings;
  add_fields(*verb, o->given, settings);
  verb->add_option("--svg", o->svg, "Draw the curves")->check(not_empty)->type_name("FILE");
  verb->add_option("--png", o->png, "The same, as pixels")->check(not_empty)->type_name("FILE");
  verb->add_flag("--json", o->json, "For programs to read");
  verb->callback([o] { run(*o); });
}

}  // namespace fovea::app
