#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/progress.h"
#include "app/train.h"
#include "app/verbs.h"
#include "tasks/translate/results.h"

namespace fovea::app {
namespace {

struct Options {
  std::string run, data, set = "test";
  models::DecodeConfig decode;
  bool json = false;
};

std::vector<text::Pair> pairs_of(const Options& o, const tasks::TranslateConfig& c) {
  if (!o.data.empty()) {
    std::vector<text::Pair> pairs = text::read_tsv(o.data);
    if (c.data.swap) {
      for (text::Pair& p : pairs) std::swap(p.source, p.target);
    }
    return pairs;
  }
  const text::Split split = tasks::load_data(c.data, c.train.seed).pairs;
  return o.set == "train" ? split.train : o.set == "valid" ? split.valid : split.test;
}

void run(const Options& o) {
  const tasks::Translator t = tasks::load_translator(o.run);
  ProgressLine line;
  const tasks::Evaluation e = tasks::evaluate(t, pairs_of(o, t.config), o.decode,
                                              [&](double done) { line.show("translating", done); });
  if (o.json) {
    fmt::print("{}\n", tasks::to_json(e).dump(2));
  } else {
    print_evaluation(e);
  }
}

}  // namespace

void add_eval(CLI::App& program) {
  CLI::App* verb = program.add_subcommand(
      "eval",
      "Score a trained run: BLEU, chrF, exact match, token error rate, by source length.\n"
      "  fovea eval RUN               its own held-out sentences\n"
      "  fovea eval RUN more.tsv --beam 5 --json");
  auto o = std::make_shared<Options>();
  verb->add_option("RUN", o->run, "The run folder")->required();
  verb->add_option("DATA", o->data, "Pairs, source<TAB>target a line; none: the run's own");
  verb->add_option("--set", o->set, "Which of the run's own sets")
      ->check(CLI::IsMember({"train", "valid", "test"}))
      ->capture_default_str();
  verb->add_option("--beam", o->decode.beam, "Hypotheses kept at each step; 1 is greedy")
      ->check(CLI::Range(int64_t{1}, models::kLargestBeam))
      ->capture_default_str();
  verb->add_option("--length-power", o->decode.length_power, "Compare by log p / length^POWER")
      ->check(CLI::Range(0.0, 10.0))
      ->capture_default_str();
  verb->add_flag("--json", o->json, "For programs to read");
  verb->callback([o] { run(*o); });
}

}  // namespace fovea::app
