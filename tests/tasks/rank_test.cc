#include "tasks/rank.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "fovea/transformer.h"
#include "tests/errors.h"

namespace fovea::tasks {
namespace {

using explain::RankCurve;
using test::error_of;
using test::has;

struct SomeConfig final : TaskConfig {
  void visit(Fields&) override {}
  std::string data_name() const override { return "some"; }
  std::string model() const override { return "gru 128, 1 layer"; }
  std::string attention() const override { return "none"; }
};

// Of a Transformer, or of none.
class SomeRun final : public Run {
 public:
  explicit SomeRun(bool has_one) : has_one_(has_one) {
    if (has_one) {
      model_ = models::transformer(
          {.source_vocabulary = 9, .target_vocabulary = 9, .blocks = 2, .depth = 8, .heads = 2}, 1);
    }
  }
  const TaskConfig& config() const override { return config_; }
  std::unique_ptr<TaskConfig> copy_of_config() const override {
    return std::make_unique<SomeConfig>(config_);
  }
  int64_t weights() const override { return 0; }
  Tensors tensors() const override { return {}; }
  std::string fingerprint() const override { return ""; }
  train::Learner learner(const Watching&) const override { throw Error("test", "not trained"); }
  Evaluation final_scores(const ShareDone&) const override { return {}; }
  Evaluation evaluate(const Judged&, const Settings&, const ShareDone&) const override {
    return {};
  }
  std::vector<Predictions> predict(std::span<const Input>, const Settings&,
                                   const Predicting&) const override {
    return {};
  }
  std::vector<Example> examples(size_t) const override { return {}; }
  std::optional<explain::BlocksAtWork> blocks(int64_t sequences) const override {
    if (!has_one_) return Run::blocks(sequences);
    asked = sequences;
    return explain::BlocksAtWork{model_.config, model_.encoder, model_.source(ids), lengths};
  }
  const models::Transformer& transformer() const { return model_; }

  const Tensor ids = Tensor::from_ids(std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8}, {2, 4});
  const Tensor lengths = Tensor::from_ids(std::vector<int64_t>{4, 3}, {2});
  mutable int64_t asked = 0;

 private:
  bool has_one_;
  SomeConfig config_;
  models::Transformer model_;
};

TEST(RankOfARun, IsThatOfItsTransformer) {
  SomeRun run(true);
  double done = 0;
  const std::vector<RankCurve> curves = rank_run(run, 5, [&](double share) { done = share; });
  EXPECT_EQ(run.asked, 5);
  EXPECT_EQ(done, 1.0);
  const std::vector<RankCurve> expected = explain::rank(run.transformer(), run.ids, run.lengths);
  ASSERT_EQ(curves.size(), expected.size());
  for (size_t i = 0; i < curves.size(); ++i) EXPECT_EQ(curves[i].residual, expected[i].residual);
}

TEST(RankOfARun, IsRefusedWhereThereIsNoTransformer) {
  SomeRun run(false);
  EXPECT_TRUE(has(error_of([&] { rank_run(run, 5); }),
                  "this run's model is gru 128, 1 layer, and rank needs a Transformer"));
}

TEST(RankOfAFreshModel, IsRefusedWhereThereIsNoRoom) {
  const explain::FreshConfig huge{.depth = 65536, .heads = 64, .length = 1 << 20};
  EXPECT_TRUE(has(error_of([&] { rank_fresh(huge); }), "lower --query-depth"));
}

std::vector<RankCurve> some_curves() {
  return {{{false, false, true}, {0.6123, 0.0009, 0.5, 3e-7, 0}},
          {{true, false, true}, {0.6123, 0.5, 0.4, 0.3, NAN}},
          {{false, false, false}, {0.6123, 0.4, 0.3, 0.2, 0.1}},
          {{true, false, false}, {0.6123, 0.4, 0.3, 0.2, 0.1}}};
}

TEST(RankShown, AsTables) {
  const std::vector<report::Table> tables = tables_of(some_curves());
  ASSERT_EQ(tables.size(), 2u);
  using Row = std::vector<std::string>;
  EXPECT_EQ(tables[0].header, (Row{"with layer norm", "attention alone", "+ skip"}));
  ASSERT_EQ(tables[0].rows.size(), 6u);
  EXPECT_EQ(tables[0].rows[0], (Row{"layer 0", "0.612", "0.612"}));
  EXPECT_EQ(tables[0].rows[3], (Row{"layer 3", "3e-07", "0.300"}));
  EXPECT_EQ(tables[0].rows[4], (Row{"layer 4", "0", "NaN"}));
  EXPECT_EQ(tables[0].rows[5], (Row{"below 0.001 from", "3", "–"}));  // not from 1: it came back
  EXPECT_EQ(tables[1].header[0], "without layer norm");
}

TEST(RankShown, AsChartsAndJson) {
  const std::vector<report::Chart> charts = charts_of(some_curves());
  ASSERT_EQ(charts.size(), 3u);
  EXPECT_EQ(charts[0].curves[1].name, "+ skip");
  EXPECT_EQ(charts[0].curves[0].points[2], (std::pair{2.0, 0.5}));
  EXPECT_FALSE(charts[1].log_y);
  EXPECT_TRUE(charts[2].log_y);
  const auto j = nlohmann::json::parse(to_json(some_curves()).dump());
  EXPECT_EQ(j.size(), 4u);
  EXPECT_EQ(j[1]["skip"], true);
  EXPECT_EQ(j[1]["mlp"], false);
  EXPECT_EQ(j[2]["norm"], false);
  EXPECT_EQ(j[0]["residual"][0], 0.6123);
  EXPECT_TRUE(j[1]["residual"][4].is_null());
}

}  // namespace
}  // namespace fovea::tasks
