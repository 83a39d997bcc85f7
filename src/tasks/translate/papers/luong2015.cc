#include <fmt/format.h>

#include "tasks/paper.h"

// Luong, Pham, Manning 2015: scores × global and local attention, with input feeding.
namespace fovea::tasks {
namespace {

struct Published {
  const char* score;
  const char* locality;
  const char* perplexity;
  const char* bleu;
};
constexpr Published kPublished[] = {
    {"location", "global", "6.4", "18.1"},
    {"dot", "global", "6.1", "18.6"},
    {"multiplicative", "global", "6.1", "17.3"},
    {"additive", "global", "", ""},
    {"dot", "local_m", ">7.0", ""},
    {"multiplicative", "local_m", "6.2", "18.6"},
    {"additive", "local_m", "", ""},
    {"dot", "local_p", "6.6", "18.0"},
    {"multiplicative", "local_p", "5.9", "19.0"},
    {"additive", "local_p", "", ""},
};

std::string row_name(const Published& p) { return fmt::format("{}-{}", p.locality, p.score); }

std::vector<Trial> trials(const std::string& data) {
  std::vector<Trial> all;
  for (const Published& row : kPublished) {
    Given options = {{"builtin", "phrases"},  {"examples", "8000"}, {"max-words", "24"},
                     {"batch-tokens", "512"}, {"epochs", "12"},     {"valid-sentences", "100"}};
    if (!data.empty()) options = {{"tsv", data}};
    options.insert({{"order", "luong"},
                    {"input-feeding", "true"},
                    {"score", row.score},
                    {"locality", row.locality},
                    {"window", "10"}});
    all.push_back({row_name(row), "translate", options});
  }
  return all;
}

report::Page page(const std::vector<Outcome>& all) {
  report::Page p;
  p.title = "Luong 2015: scores, global and local";
  p.subtitle = "Luong's order with input feeding; windows of ten words on either side";
  report::Table table{
      {"attention", "score", "perplexity", "BLEU", "the paper: perplexity", "BLEU there"}, {}};
  for (const Published& row : kPublished) {
    const std::string name = row_name(row);
    table.rows.push_back({row.locality, row.score, shown(over_seeds(all, name, "perplexity")),
                          shown(over_seeds(all, name, "bleu")), row.perplexity, row.bleu});
  }
  p.sections.push_back(
      {"Scores × locality",
       {report::Text{"The paper: WMT'14 English–German, four layers of 1000 LSTM cells. There "
                     "'general' is what is called multiplicative here; additive is ours, for "
                     "comparison."},
        table}});
  return p;
}

}  // namespace

extern const Paper paper_luong2015 = {
    .name = "luong2015",
    .title = "Effective approaches to attention-based neural machine translation",
    .about = "score × global, local-m and local-p, as a table",
    .trials = trials,
    .page = page,
};

}  // namespace fovea::tasks
