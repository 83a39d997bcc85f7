#include "tasks/looked.h"

#include <gtest/gtest.h>

#include "fovea/text.h"
#include "report/heatmap.h"
#include "report/shaded_text.h"
#include "tasks/train.h"
#include "tests/errors.h"
#include "tests/io/files.h"

namespace fovea::tasks {
namespace {

using test::error_of;
using test::Folder;
using test::has;
using test::write_bytes;

RunFolder trained(const Folder& folder, const std::string& name, const Given& typed) {
  const Task& t = task(name);
  const RunFolder run(folder / name);
  train_run(t, run, *config_from(t, typed), Existing::refuse, {});
  return run;
}

TEST(Looked, AnExampleIsKeptAtEachValidation) {
  const Folder folder;
  const RunFolder run = trained(folder, "translate",
                                {{"examples", "120"},
                                 {"hidden", "8"},
                                 {"embedding", "8"},
                                 {"steps", "6"},
                                 {"validate-every", "2"}});
  const LookHistory looks = looks_of(run);
  EXPECT_FALSE(looks.input.empty());
  ASSERT_EQ(looks.each.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(looks.each[i].step, static_cast<int64_t>(2 * (i + 1)));
    ASSERT_EQ(looks.each[i].pictures.size(), 1u);
    const auto& map = looks.each[i].pictures[0].get<report::Heatmap>();
    EXPECT_EQ(map.columns.size(), text::characters(looks.input).size() + 1);
    float sum = 0;
    for (size_t j = 0; j < map.columns.size(); ++j) sum += map.weights[j];
    EXPECT_NEAR(sum, 1.0f, 1e-2f);
  }
  EXPECT_NE(looks.each[0].pictures[0].get<report::Heatmap>().weights,
            looks.each[2].pictures[0].get<report::Heatmap>().weights);
}

TEST(Looked, TextsAreShaded) {
  const Folder folder;
  const RunFolder run = trained(folder, "documents", {{"examples", "60"}, {"epochs", "1"}});
  const LookHistory looks = looks_of(run);
  ASSERT_FALSE(looks.each.empty());
  EXPECT_TRUE(looks.each[0].pictures.at(0).holds<report::ShadedText>());
}

TEST(Looked, WithoutAttentionNothingIsKept) {
  const Folder folder;
  const RunFolder run = trained(folder, "translate",
                                {{"examples", "60"},
                                 {"hidden", "8"},
                                 {"embedding", "8"},
                                 {"context", "fixed"},
                                 {"steps", "2"}});
  EXPECT_TRUE(looks_of(run).each.empty());
}

TEST(Looked, WhatIsKeptIsFewAndSpread) {
  std::vector<LookedAt> each;
  for (int64_t step = 1; step <= 1000; ++step) {
    each.push_back({.step = step, .output = "", .pictures = {}});
    thin(each, 10);
    ASSERT_LE(each.size(), 10u);
  }
  EXPECT_EQ(each.front().step, 1);
  EXPECT_EQ(each.back().step, 1000);
  for (size_t i = 1; i < each.size(); ++i) {
    EXPECT_GT(each[i].step, each[i - 1].step);
    EXPECT_LE(each[i].step - each[i - 1].step, 400);
  }
}

TEST(Looked, ADamagedFileIsSaid) {
  const Folder folder;
  const RunFolder run(folder / "x");
  std::filesystem::create_directories(run.path());
  EXPECT_TRUE(looks_of(run).each.empty());
  write_bytes(run / "looks.json", R"({"input":"a","looks":[{"step":1}]})");
  EXPECT_TRUE(has(error_of([&] { looks_of(run); }), "looks.json"));
  write_bytes(run / "looks.json",
              R"({"input":"a","looks":[{"step":1,"output":"","texts":[],"maps":[)"
              R"({"title":"","rows":["a"],"columns":["b"],"weights":[]}]}]})");
  EXPECT_TRUE(has(error_of([&] { looks_of(run); }), "0 weights for 1 rows and 1 columns"));
}

}  // namespace
}  // namespace fovea::tasks
