#include <fmt/format.h>

#include "tasks/paper.h"

// Vaswani et al. 2017: attention is all that translates, against a recurrent network that attends.
namespace fovea::tasks {
namespace {

struct Row {
  const char* model;
  const char* what;
  const char* published;  // BLEU, WMT'14 English–German
};
constexpr Row kRows[] = {
    {"recurrent", "recurrent, additive attention", ""},
    {"transformer", "Transformer", "27.3"},
};

std::vector<Trial> trials(const std::string& data) {
  std::vector<Trial> all;
  for (const Row& row : kRows) {
    Given options = {
        {"builtin", "phrases"}, {"examples", "8000"}, {"epochs", "8"}, {"valid-sentences", "100"}};
    if (!data.empty()) options = {{"tsv", data}};
    options["model"] = row.model;
    all.push_back({row.model, "translate", options});
  }
  return all;
}

double seconds_of(const std::vector<Outcome>& all, const std::string& row) {
  std::vector<double> seconds;
  for (const Outcome& o : all) {
    if (o.trial.name == row) seconds.push_back(o.seconds);
  }
  return interval_of(seconds).mean;
}

report::Page page(const std::vector<Outcome>& all) {
  report::Page p;
  p.title = "Vaswani 2017: attention is all it takes";
  p.subtitle = "The same sentences, the same number of epochs; each model with its own settings";
  report::Table table{{"model", "BLEU", "perplexity", "training, s", "the paper: BLEU"}, {}};
  for (const Row& row : kRows) {
    table.rows.push_back({row.what, shown(over_seeds(all, row.model, "bleu")),
                          shown(over_seeds(all, row.model, "perplexity")),
                          fmt::format("{:.0f}", seconds_of(all, row.model)), row.published});
    p.headline.emplace_back(row.what,
                            fmt::format("{:.1f} BLEU", over_seeds(all, row.model, "bleu").mean));
  }
  p.sections.push_back(
      {"Translation of held-out sentences",
       {report::Text{
            "Means over seeds with 95 % intervals. The paper's figure is of the base model "
            "on WMT'14 English–German, 4.5 million sentences."},
        table}});
  return p;
}

}  // namespace

extern const Paper paper_vaswani2017 = {
    .name = "vaswani2017",
    .title = "Attention is all you need",
    .about = "a Transformer against a recurrent network with attention, three seeds",
    .seeds = 3,
    .trials = trials,
    .page = page,
};

}  // namespace fovea::tasks
