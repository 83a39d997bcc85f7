#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "report/heatmap.h"
#include "tasks/train.h"
#include "tasks/translate/builtin.h"
#include "tasks/translate/translate.h"
#include "tests/io/files.h"
#include "tests/reduced.h"

// The date translator as the demo trains it: what it writes is right, and while it writes a year
// it looks at the year.
namespace fovea::tasks::translation {
namespace {

// Steps at which the first four characters, the year, were written, and where they looked.
struct Looks {
  int64_t steps = 0;
  int64_t largest = 0;   // the largest weight stands on the source's year
  int64_t majority = 0;  // more than half of all weight does
};

void add_looks(Looks& looks, const report::Heatmap& map, const DatePlaces& year) {
  const size_t S = map.columns.size();
  for (size_t t = 0; t < 4 && t < map.rows.size(); ++t) {
    const auto row = map.weights.begin() + static_cast<int64_t>(t * S);
    const auto begin = row + year.year_begin, end = row + year.year_end;
    const auto top = std::max_element(row, row + static_cast<int64_t>(S));
    ++looks.steps;
    looks.largest += top >= begin && top < end;
    looks.majority += std::accumulate(begin, end, 0.0) > 0.5;
  }
}

TEST(SlowDates, AreRightAndTheirYearsAreLookedAt) {
  if (test::reduced()) GTEST_SKIP() << "a minute of training takes an hour under sanitizers";
  const test::Folder folder;
  TranslateConfig config = defaults_for({});
  config.train.steps = 600;  // two thirds of what it has by default
  const RunFolder run(folder / "run");
  const Trained trained = train_run(task_translate, run, config, Existing::refuse, {});
  ASSERT_EQ(trained.finished.why, train::Ended::finished);

  const Translator t = load_translator(run);
  const auto held_out = load_data(t.config.data, t.config.train.seed).pairs.test;
  std::vector<std::string> lines;
  for (const text::Pair& p : held_out) lines.push_back(p.source);
  const auto translated = translate(t, lines, {.weights = true});
  int64_t right = 0;
  Looks looks;
  for (size_t i = 0; i < lines.size(); ++i) {
    const Prediction& best = translated[i].front();
    right += best.text == held_out[i].target;
    const DatePlaces year = find_year(lines[i]);
    if (year.year_end > year.year_begin)
      add_looks(looks, best.pictures.front().get<report::Heatmap>(), year);
  }
  const auto percent = [](int64_t part, int64_t of) {
    return 100.0 * static_cast<double>(part) / static_cast<double>(of);
  };
  const auto n = static_cast<int64_t>(lines.size());
  ASSERT_GE(n, 500);
  ASSERT_GE(looks.steps, 3 * n) << "most dates have a year of four digits";
  RecordProperty("exact", std::to_string(percent(right, n)));
  RecordProperty("largest", std::to_string(percent(looks.largest, looks.steps)));
  RecordProperty("majority", std::to_string(percent(looks.majority, looks.steps)));
  EXPECT_GE(percent(right, n), 99.0);
  EXPECT_GE(percent(looks.largest, looks.steps), 95.0);
  EXPECT_GE(percent(looks.majority, looks.steps), 95.0);
}

}  // namespace
}  // namespace fovea::tasks::translation
