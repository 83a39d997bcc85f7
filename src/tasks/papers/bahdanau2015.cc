#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tasks/papers/papers.h"

// Bahdanau, Cho, Bengio 2015: without attention quality falls with the length of a sentence; with
// it, it does not.
namespace fovea::tasks {
namespace {

std::vector<Trial> trials(const ReproduceOptions& o) {
  std::vector<Trial> all;
  const int64_t seeds = o.seeds > 0 ? o.seeds : 3;
  for (const models::Context context : {models::Context::fixed, models::Context::attention}) {
    for (int64_t s = 1; s <= seeds; ++s) {
      TranslateData data{.builtin = "phrases", .examples = 20000, .max_words = 30, .tsv = o.data};
      TranslateConfig c = defaults_for(data);
      if (o.data.empty()) {
        c.model.hidden = 192;
        c.train.batch_tokens = 512;
        c.train.epochs = std::max<int64_t>(1, std::lround(5 * o.effort));
        c.valid_sentences = 100;
      } else {
        c.train.epochs = std::max<int64_t>(1, std::lround(c.train.epochs * o.effort));
      }
      c.model.context = context;
      c.train.seed = static_cast<uint64_t>(s);
      all.push_back({fmt::format("{}-{}", name_of(context), s), static_cast<uint64_t>(s), c});
    }
  }
  return all;
}

bool is(const Outcome& o, models::Context c) { return o.trial.config.model.context == c; }

// BLEU of one bucket over the seeds. Buckets are cut alike where the data is alike; where seeds
// split differently, they are matched by their order.
Interval bucket(const std::vector<Outcome>& all, models::Context c, size_t i) {
  std::vector<double> values;
  for (const Outcome& o : all) {
    if (is(o, c) && i < o.test.by_length.size()) {
      values.push_back(score_of(o.test.by_length[i].scores, "bleu"));
    }
  }
  return interval_of(values);
}

Interval whole(const std::vector<Outcome>& all, models::Context c) {
  std::vector<double> values;
  for (const Outcome& o : all) {
    if (is(o, c)) values.push_back(score_of(o.test.scores, "bleu"));
  }
  return interval_of(values);
}

report::Page page(const std::vector<Outcome>& all) {
  using models::Context;
  report::Page p;
  p.title = "Bahdanau 2015: quality by sentence length";
  p.subtitle = "One fixed vector for a sentence, against attention at every word";
  report::Table table{{"source words", "without attention", "with attention"}, {}};
  report::Bars bars{.x = "source words", .y = "BLEU", .series = {"without", "with"}};
  bars.values.resize(2);
  const auto& lengths = all.front().test.by_length;
  for (size_t i = 0; i < lengths.size(); ++i) {
    const Interval without = bucket(all, Context::fixed, i),
                   with = bucket(all, Context::attention, i);
    bars.groups.push_back(fmt::format("{}–{}", lengths[i].low, lengths[i].high));
    table.rows.push_back({bars.groups.back(), shown(without), shown(with)});
    bars.values[0].push_back(without.mean);
    bars.values[1].push_back(with.mean);
  }
  table.rows.push_back(
      {"all", shown(whole(all, Context::fixed)), shown(whole(all, Context::attention))});
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

const Paper kBahdanau2015{
    .name = "bahdanau2015",
    .title = "Neural machine translation by jointly learning to align and translate",
    .about = "BLEU by source length, with and without attention, three seeds",
    .trials = trials,
    .page = page,
};

}  // namespace fovea::tasks
