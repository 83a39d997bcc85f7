#include <fmt/format.h>

#include "tasks/paper.h"

// Xu, Ba, Kiros, Cho, Courville, Salakhutdinov, Zemel, Bengio 2015: soft and hard attention to the
// places of an image, against one vector for all of it.
namespace fovea::tasks {
namespace {

struct Row {
  const char* name;
  const char* what;
  const char *context, *weighting;
  const char *flickr8k, *coco;  // the paper's BLEU-1/2/3/4
};
constexpr Row kRows[] = {
    {"none", "no attention", "fixed", "softmax", "", ""},
    {"soft", "soft attention", "attention", "softmax", "67.0/44.8/29.9/19.5",
     "70.7/49.2/34.4/24.3"},
    {"hard", "hard attention", "attention", "sample", "67.0/45.7/31.4/21.3", "71.8/50.4/35.7/25.0"},
};

std::vector<Trial> trials(const std::string& data) {
  std::vector<Trial> all;
  for (const Row& row : kRows) {
    Given options;
    if (!data.empty()) options["data"] = data;
    options["context"] = row.context;
    if (options["context"] == "attention") options["weighting"] = row.weighting;
    all.push_back({row.name, "caption", options});
  }
  return all;
}

report::Page page(const std::vector<Outcome>& all) {
  report::Page p;
  p.title = "Xu 2015: show, attend and tell";
  p.subtitle = "The same images and training; the models differ in how they look";
  report::Table table{{"model", "BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "pointing, %",
                       "the paper, Flickr8k: BLEU-1/2/3/4", "COCO"},
                      {}};
  for (const Row& row : kRows) {
    std::vector<std::string> cells = {row.what};
    for (const char* score : {"bleu1", "bleu2", "bleu3", "bleu4", "pointing"}) {
      cells.push_back(shown(over_seeds(all, row.name, score)));
    }
    cells.emplace_back(row.flickr8k);
    cells.emplace_back(row.coco);
    table.rows.push_back(cells);
    p.headline.emplace_back(row.what,
                            fmt::format("{:.1f} BLEU-4", over_seeds(all, row.name, "bleu4").mean));
  }
  p.sections.push_back(
      {"Captions of held-out images",
       {report::Text{"Means over seeds with 95 % intervals. Pointing: of the words that name an "
                     "object, how many were written while the place looked at most lay in the "
                     "object's box; known for built-in scenes alone. The paper's figures are of "
                     "photographs, with features of a network that was trained on ImageNet."},
        table}});
  return p;
}

}  // namespace

extern const Paper paper_xu2015 = {
    .name = "xu2015",
    .title = "Show, attend and tell: neural image caption generation with visual attention",
    .about = "captions by soft, hard and no attention, with where the words point",
    .trials = trials,
    .page = page,
};

}  // namespace fovea::tasks
