#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tasks/papers/papers.h"

// Luong, Pham, Manning 2015: scores × global and local attention, with input feeding.
namespace fovea::tasks {
namespace {

using models::Locality;

struct Published {
  const char* score;
  Locality locality;
  const char* perplexity;
  const char* bleu;
};
constexpr Published kPublished[] = {
    {"location", Locality::global, "6.4", "18.1"},
    {"dot", Locality::global, "6.1", "18.6"},
    {"multiplicative", Locality::global, "6.1", "17.3"},
    {"additive", Locality::global, "", ""},
    {"dot", Locality::local_m, ">7.0", ""},
    {"multiplicative", Locality::local_m, "6.2", "18.6"},
    {"additive", Locality::local_m, "", ""},
    {"dot", Locality::local_p, "6.6", "18.0"},
    {"multiplicative", Locality::local_p, "5.9", "19.0"},
    {"additive", Locality::local_p, "", ""},
};

std::vector<Trial> trials(const ReproduceOptions& o) {
  std::vector<Trial> all;
  const int64_t seeds = o.seeds > 0 ? o.seeds : 1;
  for (const Published& row : kPublished) {
    for (int64_t s = 1; s <= seeds; ++s) {
      TranslateData data{.builtin = "phrases", .examples = 8000, .max_words = 24, .tsv = o.data};
      TranslateConfig c = defaults_for(data);
      if (o.data.empty()) {
        c.train.batch_tokens = 512;
        c.train.epochs = std::max<int64_t>(1, std::lround(12 * o.effort));
        c.valid_sentences = 100;
      } else {
        c.train.epochs = std::max<int64_t>(1, std::lround(c.train.epochs * o.effort));
      }
      c.model.order = models::Order::luong;
      c.model.input_feeding = true;
      c.model.score = row.score;
      c.model.locality = row.locality;
      c.model.window = 10;
      c.train.seed = static_cast<uint64_t>(s);
      all.push_back({fmt::format("{}-{}-{}", name_of(row.locality), row.score, s),
                     static_cast<uint64_t>(s), c});
    }
  }
  return all;
}

Interval mean_of(const std::vector<Outcome>& all, const Published& row, const char* score) {
  std::vector<double> values;
  for (const Outcome& o : all) {
    const models::Seq2SeqConfig& m = o.trial.config.model;
    if (m.score == row.score && m.locality == row.locality) {
      values.push_back(score_of(o.test.scores, score));
    }
  }
  return interval_of(values);
}

report::Page page(const std::vector<Outcome>& all) {
  report::Page p;
  p.title = "Luong 2015: scores, global and local";
  p.subtitle = "Luong's order with input feeding; windows of ten words on either side";
  report::Table table{
      {"attention", "score", "perplexity", "BLEU", "the paper: perplexity", "BLEU there"}, {}};
  for (const Published& row : kPublished) {
    table.rows.push_back({name_of(row.locality), row.score, shown(mean_of(all, row, "perplexity")),
                          shown(mean_of(all, row, "bleu")), row.perplexity, row.bleu});
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

const Paper kLuong2015{
    .name = "luong2015",
    .title = "Effective approaches to attention-based neural machine translation",
    .about = "score × global, local-m and local-p, as a table",
    .trials = trials,
    .page = page,
};

}  // namespace fovea::tasks
