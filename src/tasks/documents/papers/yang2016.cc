#include <fmt/format.h>

#include "tasks/paper.h"

// Yang, Yang, Dyer, He, Smola, Hovy 2016: attention over words and over sentences, against models
// that know of no sentences.
namespace fovea::tasks {
namespace {

struct Row {
  const char* model;
  const char* what;
  const char* published;  // accuracy on Yelp 2015
};
constexpr Row kRows[] = {
    {"mean", "mean of word vectors", ""},
    {"flat", "words, attention", ""},
    {"hierarchical", "words and sentences, attention", "71.0"},
};

// With the user's data, a seed is a fold: each document is held out once.
std::vector<Trial> trials(const std::string& data) {
  std::vector<Trial> all;
  for (const Row& row : kRows) {
    Given options;
    if (!data.empty()) options = {{"data", data}, {"folds", "5"}};
    options["model"] = row.model;
    all.push_back({row.model, "documents", options});
  }
  return all;
}

report::Page page(const std::vector<Outcome>& all) {
  report::Page p;
  p.title = "Yang 2016: a hierarchy of attention";
  p.subtitle = "The same data and training; the models differ in what they know of a document";
  report::Table table{{"model", "accuracy, %", "macro-F1, %", "loss", "the paper, Yelp 2015"}, {}};
  for (const Row& row : kRows) {
    table.rows.push_back({row.what, shown(over_seeds(all, row.model, "accuracy")),
                          shown(over_seeds(all, row.model, "macro_f1")),
                          shown(over_seeds(all, row.model, "loss")), row.published});
  }
  const Interval best = over_seeds(all, "hierarchical", "accuracy"),
                 flat = over_seeds(all, "flat", "accuracy");
  p.headline = {{"hierarchical", fmt::format("{:.1f} %", best.mean)},
                {"flat", fmt::format("{:.1f} %", flat.mean)}};
  p.sections.push_back(
      {"Accuracy on held-out documents",
       {report::Text{"Means over seeds with 95 % intervals. With data of one's own a seed is a "
                     "fold of five. The paper's figure is of reviews with five grades, 1.6 million "
                     "of them; reimplementations are near 65."},
        table}});
  return p;
}

}  // namespace

extern const Paper paper_yang2016 = {
    .name = "yang2016",
    .title = "Hierarchical attention networks for document classification",
    .about = "words and sentences against words alone and their mean, five seeds",
    .seeds = 5,
    .trials = trials,
    .page = page,
};

}  // namespace fovea::tasks
