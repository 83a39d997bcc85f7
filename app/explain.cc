#include "tasks/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/options.h"
#include "app/outputs.h"
#include "app/print.h"
#include "app/progress.h"
#include "app/verbs.h"
#include "fovea/error.h"
#include "report/label.h"
#include "report/table_text.h"
#include "tasks/run_folder.h"

namespace fovea::app {
namespace {

constexpr const char* kWeights = "weights";

struct ExplainOptions {
  std::string run, picture, beside;
  std::vector<std::string> inputs, by;
  tasks::Explaining how;
  bool json = false;
};

bool is_page(const std::string& file) { return std::filesystem::path(file).extension() == ".html"; }

void check_picture(const ExplainOptions& o, const tasks::Task& task) {
  if (o.picture.empty()) return;
  if (!is_page(o.picture)) report::picture_format(o.picture);
  Reads reads{.files = {}, .runs = {o.run}};
  if (task.takes == tasks::Takes::pictures) {
    for (const std::string& input : o.inputs) reads.files.push_back(file_named_by(input));
  }
  check_output({"explain", o.picture}, reads);
}

tasks::Inside inside_of(const tasks::Run& run, const tasks::Task& task, const std::string& input) {
  std::optional<tasks::Inside> inside =
      run.inside(tasks::typed_input(task, input, run.class_column(nullptr)));
  if (!inside) {
    throw Error("explain", fmt::format("nobody has looked inside {} yet: there is nothing to show",
                                       task.name));
  }
  return std::move(*inside);
}

void print_pictures(const std::vector<report::Picture>& pictures) {
  for (const report::Picture& picture : pictures) print_out("\n{}", terminal_text(picture));
}

void show_weights(const ExplainOptions& o, const tasks::Run& run, const tasks::Task& task) {
  if (o.inputs.size() != 2 || o.by.size() != 1) {
    throw Error("explain", fmt::format("--by weights stands alone and takes two inputs, found {}",
                                       o.inputs.size()));
  }
  const tasks::Inside a = inside_of(run, task, o.inputs[0]), b = inside_of(run, task, o.inputs[1]);
  const std::vector<report::Picture> maps = tasks::fast_and_slow(a, b, o.how);
  if (is_page(o.picture)) {
    report::write_page(o.picture,
                       {.title = "Fast and slow weights",
                        .subtitle = a.title + "; " + b.title,
                        .headline = {},
                        .sections = {{"What is applied to each input", {report::Pictures{maps}}}}});
  } else if (!o.picture.empty()) {
    report::write(o.picture, maps);
  }
  if (!o.json) return print_pictures(maps);
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const report::Picture& map : maps) list.push_back(map.kind().json(map));
  print_out("{}\n", list.dump());
}

// Its first rows; --json has all of them.
void print_table(const tasks::Explanation& e) {
  constexpr size_t kMost = 24;
  // Of a lens the map says enough, unless one place was asked for.
  if (e.table.rows.empty() || (e.by == tasks::By::lens && e.table.rows.size() > kMost)) return;
  report::Table some = e.table;
  some.rows.resize(std::min(some.rows.size(), kMost));
  print_out("\n{}", report::to_text(some));
  if (some.rows.size() < e.table.rows.size()) {
    print_out("… {} of {}; --json has all\n", kMost, e.table.rows.size());
  }
}

void show(const ExplainOptions& o, const std::string& name, const tasks::Inside& inside,
          const std::vector<tasks::Explanation>& all) {
  const std::vector<report::Picture> pictures = tasks::pictures_of(inside, all);
  if (is_page(o.picture)) {
    report::write_page(o.picture, tasks::page_of(name, inside, all));
  } else if (!o.picture.empty()) {
    report::write(o.picture, pictures);
  }
  if (o.json) {
    print_out("{}\n", tasks::to_json(inside, all).dump());
    return;
  }
  print_out("{}\n", report::for_terminal(inside.title));
  print_pictures(pictures);
  for (const tasks::Explanation& e : all) print_table(e);
  for (const tasks::Explanation& e : all) {
    if (!e.note.empty()) {
      print_out("\n{}: {}\n", name_of(e.by), report::for_terminal(e.note));
    }
  }
  const report::Table sizes = tasks::agreement_of(all),
                      values = tasks::agreement_of(all, tasks::TauOf::values);
  if (!sizes.rows.empty()) print_out("\nDo they agree?\n{}", report::to_text(sizes));
  if (!values.rows.empty()) print_out("\n{}", report::to_text(values));
}

void run(const ExplainOptions& o) {
  tasks::Explaining how = o.how;
  const bool weights = std::find(o.by.begin(), o.by.end(), kWeights) != o.by.end();
  for (const std::string& name : o.by) {
    if (name != kWeights) how.by.push_back(tasks::way(name));
  }
  const tasks::RunFolder folder(o.run);
  const tasks::Task& task = folder.task();
  check_picture(o, task);
  const auto opened = task.open(folder);
  if (weights) return show_weights(o, *opened, task);
  if (o.inputs.size() != 1) {
    throw Error("explain", fmt::format("one input is explained at a time, found {}: quote it",
                                       o.inputs.size()));
  }
  const tasks::Inside inside = inside_of(*opened, task, o.inputs.front());
  std::optional<tasks::Inside> beside;
  if (!o.beside.empty()) {
    if (std::ranges::count(how.by, tasks::By::patching) == 0) {
      throw Error("explain", "--beside is for --by patching");
    }
    beside = inside_of(*opened, task, o.beside);
    how.beside = &*beside;
  }
  if (how.by.empty()) {
    if (inside.attention && how.against.empty()) how.by.push_back(tasks::By::attention);
    how.by.push_back(inside.convolution ? tasks::By::gradcam_places : tasks::By::jacobian);
  }
  ProgressLine line;
  const auto begun = std::chrono::steady_clock::now();
  how.done = [&](double done) {
    if (std::chrono::steady_clock::now() - begun < std::chrono::seconds(1)) return;
    line.show("looking inside", done);
  };
  const std::vector<tasks::Explanation> all = tasks::explain(inside, how);
  show(o, folder.name(), inside, all);
}

std::string explain_help() {
  std::string text =
      "Which parts of an input, a text or an image, moved a run's output, by one attribution "
      "method "
      "or several. Two or more\n"
      "also give a table of how far they agree.\n"
      "  fovea explain RUN \"some text\"\n"
      "  fovea explain RUN \"some text\" --by attention,jacobian,occlusion --picture why.svg\n"
      "  fovea explain RUN \"one text\" \"another\" --by weights\n"
      "  fovea explain RUN photo.jpg --by attention,hirescam,occlusion --picture why.png\n"
      "  fovea explain RUN \"some text\" --by occlusion --output is --against are\n"
      "  fovea explain RUN \"some text\" --by lens,heads\n"
      "  fovea explain RUN \"some text\" --by patching --beside \"another text\"\n"
      "Methods:";
  for (const tasks::By by : tasks::ways()) {
    text += fmt::format("\n  {:<20} {}", name_of(by), about(by));
  }
  return text + fmt::format("\n  {:<20} {}", kWeights,
                            "Two inputs: what attention applies to each, beside a convolution.");
}

}  // namespace

void add_explain(CLI::App& program) {
  CLI::App* verb = program.add_subcommand("explain", explain_help());
  auto o = std::make_shared<ExplainOptions>();
  verb->add_option("RUN", o->run, "The run folder")->required()->check(not_empty);
  verb->add_option("INPUT", o->inputs, "What it is asked about")->required();
  verb->add_option("--by", o->by,
                   "Methods, by commas [attention, and jacobian or hirescam]")
      ->delimiter(',')
      ->allow_extra_args(false)  // what follows is an input
      ->check(not_empty);
  verb->add_option("--output", o->how.output, "One output: its number from 1, or its name")
      ->check(not_empty);
  verb->add_option("--against", o->how.against,
                   "Why the output rather than this one: a class, or a token")
      ->check(not_empty);
  verb->add_option("--beside", o->beside,
                   "patching: another input, of as many tokens, whose rows are taken")
      ->check(not_empty);
  verb->add_option("--top", o->how.top, "lens: how many tokens are listed [5]")
      ->check(CLI::Range(1, 1000));
  verb->add_option("--layer", o->how.layer,
                   "attention, weights: a layer's name, or its number, the first layer being 1")
      ->check(not_empty);
  verb->add_option("--head", o->how.head, "attention: a head from 1 [the mean]")->check(not_empty);
  verb->add_option("--picture", o->picture, "Draw: FILE.svg, .png, .json, .csv or .html")
      ->check(not_empty);
  verb->add_flag("--json", o->json, "For programs to read");
  verb->callback([o] { run(*o); });
}

}  // namespace fovea::app
