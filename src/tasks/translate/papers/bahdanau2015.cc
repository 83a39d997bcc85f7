#include <fmt/format.h>

#include <limits>

#include "tasks/paper.h"

// Bahdanau, Cho, Bengio 2015: without attention quality falls with the length of a sentence; with
// it, it does not.
namespace fovea::tasks {
namespace {

constexpr const char* kWithout = "fixed";
constexpr const char* kWith = "attention";

std::vector<Trial> trials(const std::string& data) {
  std::vector<Trial> all;
  for (const char* context : {kWithout, kWith}) {
    Given options = {{"builtin", "phrases"},    {"examples", "20000"},   {"max-words", "30"},
                     {"hidden", "192"},         {"batch-tokens", "512"}, {"epochs", "5"},
                     {"valid-sentences", "100"}};
    if (!data.empty()) options = {{"tsv", data}};
    options["context"] = context;
    all.push_back({context, "translate", options});
  }
  return all;
}

// BLEU of one part over the seeds. Parts are cut alike where the data is alike; where seeds split
// differently, they are matched by their order.
Interval part(const std::vector<Outcome>& all, const char* row, size_t i) {
  return over_seeds(all, row, [&](const Evaluation& e) {
    const Breakdown* lengths = find_breakdown(e, "length");
    if (lengths == nullptr || i >= lengths->parts.size()) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    return score_of(lengths->parts[i].scores, "bleu");
  });
}

report::Page page(const std::vector<Outcome>& all) {
  report::Page p;
  p.title = "Bahdanau 2015: quality by sentence length";
  p.subtitle = "One fixed vector for a sentence, against attention at every word";
  report::Table table{{"source words", "without attention", "with attention"}, {}};
  report::Bars bars{.x = "source words", .y = "BLEU", .series = {"without", "with"}};
  bars.values.resize(2);
  const std::vector<ScoredPart>& lengths = find_breakdown(all.front().test, "length")->parts;
  for (size_t i = 0; i < lengths.size(); ++i) {
    const Interval without = part(all, kWithout, i), with = part(all, kWith, i);
    bars.groups.push_back(label_of(lengths[i]));
    table.rows.push_back({bars.groups.back(), shown(without), shown(with)});
    bars.values[0].push_back(without.mean);
    bars.values[1].push_back(with.mean);
  }
  table.rows.push_back(
      {"all", shown(over_seeds(all, kWithout, "bleu")), shown(over_seeds(all, kWith, "bleu"))});
  const auto fall = [&](size_t series) {
    return bars.values[series].front() - bars.values[series].back();
  };
  table.rows.push_back({"fall, shortest to longest", fmt::format("{:.1f}", fall(0)),
                        fmt::format("{:.1f}", fall(1))});
  table.rows.push_back({"the paper, WMT'14 En–Fr, trained to 50 words", "17.82", "26.75"});
  table.rows.push_back({"the paper, trained to 30 words", "13.93", "21.50"});
  p.headline = {{"fall without attention", fmt::format("{:.1f}", fall(0))},
                {"fall with attention", fmt::format("{:.1f}", fall(1))}};
  p.sections.push_back(
      {"BLEU by source length",
       {report::Text{"Means over seeds with 95 % intervals; both models differ in nothing but the "
                     "context."},
        bars, table}});
  return p;
}

}  // namespace

extern const Paper paper_bahdanau2015 = {
    .name = "bahdanau2015",
    .title = "Neural machine translation by jointly learning to align and translate",
    .about = "BLEU by source length, with and without attention, three seeds",
    .seeds = 3,
    .trials = trials,
    .page = page,
};

}  // namespace fovea::tasks
