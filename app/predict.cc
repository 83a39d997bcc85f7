#include <fmt/format.h>
#include <unistd.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "app/progress.h"
#include "app/verbs.h"
#include "fovea/error.h"
#include "tasks/translate.h"

namespace fovea::app {
namespace {

struct Options {
  std::string run, file, weights;
  std::vector<std::string> lines;
  models::DecodeConfig decode;
  bool show = false, json = false;
};

std::vector<std::string> input_of(const Options& o) {
  if (!o.file.empty() && o.file != "-") return text::read_lines(o.file);
  if (!o.lines.empty() && o.file.empty()) return o.lines;
  std::vector<std::string> lines;
  for (std::string line; std::getline(std::cin, line);) {
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(text::valid_utf8(line));
  }
  return lines;
}

void print_json(const std::string& line, const std::vector<tasks::Translation>& n_best) {
  nlohmann::ordered_json best = nlohmann::ordered_json::array();
  for (const tasks::Translation& t : n_best) {
    best.push_back({{"text", t.text}, {"score", t.score}, {"ended", t.ended}});
  }
  const nlohmann::ordered_json j = {{"source", line}, {"translations", best}};
  fmt::print("{}\n", j.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

void print(const Options& o, const std::string& line,
           const std::vector<tasks::Translation>& n_best) {
  if (o.json) {
    print_json(line, n_best);
    return;
  }
  for (const tasks::Translation& t : n_best) {
    if (o.decode.n_best > 1) fmt::print("{:.4f}\t", t.score);
    fmt::print("{}\n", t.text);
    if (o.show && !t.map.weights.empty()) {
      const auto ink = stdout_has_colours() ? report::Ink::colour : report::Ink::plain;
      fmt::print("\n{}\n", report::to_text(t.map, ink, terminal_width()));
    }
  }
}

void run(Options o) {
  o.decode.weights = o.show || !o.weights.empty();
  o.decode.beam = std::max(o.decode.beam, o.decode.n_best);
  const tasks::Translator t = tasks::load_translator(o.run);
  if (o.decode.weights && t.config.model.context == models::Context::fixed) {
    throw Error("predict", "this model has no attention to show (its context is fixed)");
  }
  const std::vector<std::string> lines = input_of(o);
  ProgressLine progress;
  const auto all = tasks::translate(t, lines, o.decode, [&](double done) {
    if (lines.size() > 1000) progress.show("translating", done);
  });
  std::vector<report::Heatmap> maps;
  for (size_t i = 0; i < lines.size(); ++i) {
    print(o, lines[i], all[i]);
    for (const tasks::Translation& one : all[i]) maps.push_back(one.map);
  }
  if (!o.weights.empty()) report::write(o.weights, maps);
}

}  // namespace

void add_predict(CLI::App& program) {
  CLI::App* verb =
      program.add_subcommand("predict",
                             "Translate with a trained run.\n"
                             "  fovea predict runs/translate-dates --show \"3rd of May 2021\"\n"
                             "  fovea predict RUN --file in.txt --beam 5 > out.txt\n"
                             "  echo \"le 3 mai 2021\" | fovea predict RUN --weights looked.svg");
  auto o = std::make_shared<Options>();
  verb->add_option("RUN", o->run, "The run folder")->required();
  verb->add_option("TEXT", o->lines, "What to translate; none: lines from standard input");
  verb->add_option("--file", o->file, "Lines of a file (gzip too); - is standard input");
  verb->add_option("--beam", o->decode.beam, "Hypotheses kept at each step; 1 is greedy")
      ->check(CLI::Range(int64_t{1}, models::kLargestBeam))
      ->capture_default_str();
  verb->add_option("--n-best", o->decode.n_best, "Print this many, each with its score")
      ->check(CLI::Range(int64_t{1}, models::kLargestBeam))
      ->capture_default_str();
  verb->add_option("--length-power", o->decode.length_power, "Compare by log p / length^POWER")
      ->check(CLI::Range(0.0, 10.0))
      ->capture_default_str();
  verb->add_option("--longest", o->decode.longest, "Tokens; 0: twice the source and ten")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  verb->add_option("--weights", o->weights, "Write where it looked: FILE.json, .svg or .png");
  verb->add_flag("--show", o->show, "Draw where it looked");
  verb->add_flag("--json", o->json, "One JSON object a line");
  verb->callback([o] { run(*o); });
}

}  // namespace fovea::app
