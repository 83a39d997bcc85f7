#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "tasks/config.h"
#include "tasks/papers/papers.h"
#include "tasks/translate.h"
#include "tasks/translate/results.h"

namespace fovea::tasks {
namespace {

struct Compared {
  std::string name;
  models::Seq2SeqConfig model;
  double seconds = 0;
  Evaluation test;
};

Compared read_run(const std::filesystem::path& run) {
  const nlohmann::ordered_json results = read_json(run / "results.json");
  const std::filesystem::path plain = run.filename().empty() ? run.parent_path() : run;
  return {plain.filename().string(), read_config(run).model, results.at("seconds").get<double>(),
          evaluation_from_json(results.at("test"))};
}

std::string attention_of(const models::Seq2SeqConfig& m) {
  if (m.context == models::Context::fixed) return "none, a fixed context";
  return fmt::format("{} {}, {}", name_of(m.locality), m.score, m.weighting);
}

report::Table table_of(const std::vector<Compared>& runs) {
  report::Table t{{"run", "attention", "perplexity", "BLEU", "chrF", "exact", "minutes"}, {}};
  for (const Compared& r : runs) {
    const auto figure = [&](const char* name) {
      return fmt::format("{:.2f}", score_of(r.test.scores, name));
    };
    t.rows.push_back({r.name, attention_of(r.model), figure("perplexity"), figure("bleu"),
                      figure("chrf"), figure("exact"), fmt::format("{:.1f}", r.seconds / 60)});
  }
  return t;
}

// By the first run's groups; runs whose groups differ are left out of the picture.
report::Bars bars_of(const std::vector<Compared>& runs) {
  report::Bars bars{.x = "source tokens", .y = "BLEU"};
  const std::vector<Bucket>& groups = runs.front().test.by_length;
  for (const Bucket& b : groups) bars.groups.push_back(fmt::format("{}–{}", b.low, b.high));
  for (const Compared& r : runs) {
    if (r.test.by_length.size() != groups.size()) continue;
    bars.series.push_back(r.name);
    std::vector<double>& values = bars.values.emplace_back();
    for (size_t i = 0; i < groups.size(); ++i) {
      const Bucket& b = r.test.by_length[i];
      const bool same = b.low == groups[i].low && b.high == groups[i].high;
      values.push_back(same ? score_of(b.scores, "bleu")
                            : std::numeric_limits<double>::quiet_NaN());
    }
  }
  return bars;
}

}  // namespace

report::Page compare_page(const std::vector<std::filesystem::path>& runs) {
  std::vector<Compared> all;
  for (const std::filesystem::path& run : runs) all.push_back(read_run(run));
  report::Page page{.title = "Translation: runs compared",
                    .subtitle = "Each on its own held-out sentences"};
  page.sections.push_back({"Scores", {table_of(all)}});
  page.sections.push_back({"BLEU by source length", {bars_of(all)}});
  return page;
}

}  // namespace fovea::tasks
