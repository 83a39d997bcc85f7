#include <fmt/format.h>

#include <cmath>

#include "tasks/faithful.h"
#include "tasks/paper.h"

// Jain, Wallace 2019: attention is not explanation. Over classifiers of text, attention agrees but
// weakly with gradients and with leaving words out, and quite other weights give the same output.
namespace fovea::tasks {
namespace {

struct Row {
  const char *name, *what;
  Given options;
};

const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      {"lstm", "one LSTM both ways, as the paper's", {{"model", "flat"}, {"cell", "lstm"}}},
      {"hierarchical", "words, then sentences", {{"model", "hierarchical"}}},
      {"transformer", "a Transformer", {{"model", "transformer"}}},
  };
  return all;
}

// τ of attention and gradients, the paper's own.
struct Published {
  const char *data, *tau;
};
constexpr Published kPublished[] = {
    {"SST", "0.35"}, {"IMDB", "0.44"}, {"20 News", "0.13"}, {"SNLI", "0.31"}};

std::vector<Trial> trials(const std::string& data) {
  std::vector<Trial> all;
  for (const Row& row : rows()) {
    Given options = row.options;
    if (!data.empty()) options["data"] = data;
    all.push_back({row.name, "documents", options});
  }
  return all;
}

void look_inside(const Run& run, Outcome& outcome, const ShareDone& done) {
  FaithfulSettings settings;
  settings.inputs = 40;
  settings.seed = static_cast<int64_t>(outcome.seed);
  const FaithfulFound found = measure_faithful(run, {}, {}, settings, done);
  for (auto& score : scores_of(found)) outcome.test.scores.push_back(std::move(score));
}

report::Page page(const std::vector<Outcome>& all) {
  report::Page p;
  p.title = "Jain 2019: is attention an explanation?";
  p.subtitle =
      "Does attention agree with what moves the output, and do other weights give the same?";
  report::Table table{{"model", "accuracy, %", "τ, gradient", "τ, left out", "change, permuted",
                       "change, uniform", "distance, adversarial"},
                      {}};
  for (const Row& row : rows()) {
    std::vector<std::string>& cells = table.rows.emplace_back();
    cells.emplace_back(row.what);
    cells.push_back(shown(over_seeds(all, row.name, "accuracy")));
    for (const char* score :
         {"tau_gradient", "tau_left_out", "permuted", "uniform", "adversarial"}) {
      cells.push_back(shown(over_seeds(all, row.name, score), 2));
    }
  }
  for (const Published& one : kPublished) {
    table.rows.push_back({fmt::format("the paper, {}", one.data), "", one.tau, "", "little", "",
                          "far, in its plots"});
  }
  p.headline = {
      {"τ, gradient", fmt::format("{:.2f}", over_seeds(all, "lstm", "tau_gradient").mean)},
      {"distance, adversarial", fmt::format("{:.2f}", over_seeds(all, "lstm", "adversarial").mean)},
      {"the farthest there is", fmt::format("{:.2f}", std::log(2.0))}};
  p.sections.push_back(
      {"Attention beside what moves the output",
       {report::Text{
            "Of 40 held-out documents a seed; means over seeds with 95 % intervals. τ is "
            "Kendall's, between the order of the weights and that of |x·∂y/∂x| with "
            "the weights held, or of the change where a word is blank. Changes are total "
            "variations of the output. The adversary looks for the weights farthest from "
            "the model's own, by Jensen and Shannon, that change the output by no more "
            "than 0.01; log 2 = 0.69 is the farthest there is. The paper says of its "
            "adversary's distances and of permutations in plots and words, not in a table."},
        table}});
  return p;
}

}  // namespace

extern const Paper paper_jain2019 = {
    .name = "jain2019",
    .title = "Attention is not explanation",
    .about = "attention against gradients, left-out words, permuted and adversarial weights",
    .seeds = 3,
    .trials = trials,
    .page = page,
    .look_inside = look_inside,
};

}  // namespace fovea::tasks
