#include "tasks/explain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "fovea/ops.h"
#include "report/shaded_text.h"
#include "tasks/faithful.h"
#include "tests/errors.h"
#include "tests/tasks/asking.h"

namespace fovea::tasks {
namespace {

using test::error_of;
using test::has;

// A run that was never trained looks somewhere all the same.
std::unique_ptr<Run> run_of(const std::string& of, Given options) {
  for (const auto& [name, value] : Given{{"examples", "60"}, {"seed", "3"}}) options[name] = value;
  const Task& t = task(of);
  return t.begin(*config_from(t, options), nullptr);
}

Given small(Given more) {
  more.insert({{"embedding", "6"}, {"hidden", "7"}});
  return more;
}
Given blocks(Given more) {
  more.insert({{"blocks", "2"}, {"query-depth", "8"}, {"heads", "2"}});
  return more;
}

struct Explained {
  std::string name, task, input;
  Given options;
  bool looks = true, deep = false;  // has attention, has layers of it
};

const std::vector<Explained>& all_explained() {
  static const std::vector<Explained> list = {
      {"attention", "translate", "3 May 2021", small({})},
      {"luong", "translate", "3 May 2021", small({{"order", "luong"}})},
      {"fixed", "translate", "3 May 2021", small({{"context", "fixed"}}), false},
      {"transformer", "translate", "3 May 2021", blocks({{"model", "transformer"}}), true, true},
      {"lm", "lm", "Ada has a hat.", blocks({{"context", "32"}}), true, true},
      {"linear", "lm", "Ada has", blocks({{"context", "32"}, {"linear", "true"}}), false},
      {"hierarchical", "documents", "The film is dull. It rained in Oslo.", small({})},
      {"flat", "documents", "The film is dull. It rained.", small({{"model", "flat"}})},
      {"mean", "documents", "The film is dull.", small({{"model", "mean"}}), false},
      {"blocks", "documents", "The film is dull. It rained.", blocks({{"model", "transformer"}}),
       true, true},
  };
  return list;
}

std::string refusal(const Inside& in, By by) {
  return error_of([&] { explain(in, asking({by})); });
}

// Every way that makes sense gives a map of all outputs and inputs; the others say why not.
TEST(Explain, EveryTaskByEveryWay) {
  for (const Explained& one : all_explained()) {
    const auto run = run_of(one.task, one.options);
    const Inside in = run->inside(Text{one.input}).value();
    const size_t rows = in.side_by_side ? 1 : in.outputs.size();
    ASSERT_EQ(static_cast<int64_t>(in.inputs.size()), in.x.size(0)) << one.name;
    std::vector<By> some;
    const std::vector<By> answered = ways_for(in);
    for (const By by : ways()) {
      if (!is_of_inputs(by)) continue;  // inside_test.cc
      const bool makes_sense = by == By::attention ? one.looks
                               : by == By::rollout ? one.deep
                                                   : by != By::gradcam && by != By::gradcam_places;
      EXPECT_EQ(std::ranges::count(answered, by), makes_sense) << one.name << " " << name_of(by);
      if (makes_sense) {
        some.push_back(by);
      } else {
        EXPECT_NE(refusal(in, by), "") << one.name << " " << name_of(by);
      }
    }
    const std::vector<Explanation> maps = explain(in, asking(some));
    for (const Explanation& e : maps) {
      EXPECT_EQ(e.map.rows.size(), rows) << one.name << " " << name_of(e.by);
      EXPECT_EQ(e.map.columns, in.inputs) << one.name << " " << name_of(e.by);
      ASSERT_EQ(e.map.weights.size(), rows * in.inputs.size()) << one.name << name_of(e.by);
      float size = 0;
      for (const float w : e.map.weights) {
        EXPECT_TRUE(std::isfinite(w)) << one.name << " " << name_of(e.by);
        size += std::abs(w);
      }
      EXPECT_GT(size, 0.0f) << one.name << " " << name_of(e.by);
      if (e.by != By::attention && e.by != By::rollout) continue;
      EXPECT_NEAR(size, static_cast<float>(rows), 1e-3f) << one.name << " " << name_of(e.by);
    }
    const report::Table table = agreement_of(maps);
    EXPECT_EQ(table.rows.size(), maps.size()) << one.name;
    EXPECT_EQ(agreement_of(maps, TauOf::values).rows.size(), 4u) << one.name;  // those with signs
    const std::vector<report::Picture> pictures = pictures_of(in, maps);
    EXPECT_EQ(std::ranges::any_of(
                  pictures, [](const auto& p) { return p.template holds<report::ShadedText>(); }),
              one.task == "documents")
        << one.name;
    EXPECT_EQ(to_json(in, maps)["maps"].size(), maps.size());
  }
}

// What is differentiated is how likely that is which was said, in any number of rows.
TEST(Explain, OutputsAreTheLikeliest) {
  for (const Explained& one : all_explained()) {
    const auto run = run_of(one.task, one.options);
    const Inside in = run->inside(Text{one.input}).value();
    const NoGrad off;
    const Tensor once = in.log_odds(in.x.unsqueeze(0));
    ASSERT_EQ(once.shape(), (Shape{1, static_cast<int64_t>(in.outputs.size())})) << one.name;
    const Tensor many = in.log_odds(stack({in.x, in.x * 0.5f, in.x}, 0));
    for (size_t t = 0; t < in.outputs.size(); ++t) {
      const auto at = static_cast<int64_t>(t);
      EXPECT_NEAR(once.select(0, 0).to_vector()[t], many.select(0, 2).to_vector()[t], 1e-4f)
          << one.name << at;
    }
    if (!in.look) continue;
    const explain::Seen seen = in.look({});
    const std::vector<float> best = max(seen.log_p, {1}).to_vector();
    const std::vector<float> said = once.to_vector();
    for (size_t t = 0; t < best.size(); ++t) {
      const float odds = said[in.side_by_side ? in.shown : t];
      EXPECT_NEAR(best[t], -std::log1p(std::exp(-odds)), 1e-4f) << one.name << t;
    }
  }
}

TEST(Explain, AttentionIsWhatPredictShows) {
  const auto run = run_of("translate", small({}));
  const Task& t = task("translate");
  const std::vector<Input> inputs = {Text{"3 May 2021"}};
  const auto predicted = run->predict(inputs, *t.predict_settings(), {.maps = Maps::keep});
  const auto& expected = predicted[0][0].pictures.front().get<report::Heatmap>();
  const report::Heatmap found =
      explain(*run->inside(inputs[0]), asking({By::attention})).front().map;
  ASSERT_EQ(found.rows, expected.rows);
  ASSERT_EQ(found.columns, expected.columns);
  for (size_t i = 0; i < found.weights.size(); ++i) {
    EXPECT_NEAR(found.weights[i], expected.weights[i], 1e-5f);
  }
}

TEST(Explain, ChoosesOutputsLayersAndHeads) {
  const auto run = run_of("translate", blocks({{"model", "transformer"}}));
  const Inside in = run->inside(Text{"3 May"}).value();
  Explaining how = asking({By::attention, By::jacobian});
  how.output = "2";
  for (const Explanation& e : explain(in, how)) {
    EXPECT_EQ(e.map.rows, (std::vector<std::string>{in.outputs[1]}));
  }
  how = asking({By::attention});
  how.layer = "encoder.1.self";
  how.head = "2";
  const Explanation self = explain(in, how).front();
  EXPECT_EQ(self.map.rows, in.inputs);
  EXPECT_FALSE(self.of_outputs);
  EXPECT_EQ(self.map.title, "Encoder layer 2, self-attention, head 2");
  how.layer = "2";  // in the order of the data: encoder.1.self
  EXPECT_EQ(explain(in, how).front().map.weights, self.map.weights);
  how.layer = "Encoder layer 2, self-attention";
  EXPECT_EQ(explain(in, how).front().map.weights, self.map.weights);
  how.head = "3";
  EXPECT_TRUE(has(error_of([&] { explain(in, how); }), "--head must be in 1 … 2, found 3"));
  how.layer = "encoder.9.self";
  EXPECT_TRUE(has(error_of([&] { explain(in, how); }), "did you mean \"encoder."));
  how = asking({By::jacobian});
  how.output = "999";
  EXPECT_TRUE(has(error_of([&] { explain(in, how); }), "--output must be in 1 …"));
  EXPECT_TRUE(has(error_of([] { way("jacobain"); }), "did you mean \"jacobian\""));

  const auto documents = run_of("documents", small({}));
  const Inside text = documents->inside(Text{"The film is dull."}).value();
  how.output = "positive";
  EXPECT_EQ(explain(text, how).front().map.rows, (std::vector<std::string>{"positive"}));
}

TEST(Explain, FormerNamesAreTaken) {
  EXPECT_EQ(way("integrated-gradients"), By::saliency_integrated);
  EXPECT_EQ(way("saliency-integrated"), By::saliency_integrated);
  EXPECT_EQ(way("smoothgrad"), way("saliency-smoothed"));
  EXPECT_EQ(way("gradient-x-input"), way("saliency-input"));
  EXPECT_EQ(way("hirescam"), way("gradcam-places"));
  EXPECT_NE(error_of([] { way(""); }), "");
}

// Two that give the same sizes with opposite signs agree by size and contradict each other by
// value.
TEST(Explain, AgreementKnowsSigns) {
  const auto made = [](By by, std::vector<float> weights, report::Scale scale) {
    return Explanation{
        by,
        {.rows = {"y"}, .columns = {"a", "b", "c"}, .weights = std::move(weights), .scale = scale}};
  };
  using report::Scale;
  const std::vector<Explanation> all = {
      made(By::occlusion, {0.1f, -0.5f, 0.9f}, Scale::around_zero),
      made(By::saliency_input, {-0.1f, 0.5f, -0.9f}, Scale::around_zero),
      made(By::jacobian, {0.1f, 0.5f, 0.9f}, Scale::from_zero)};
  EXPECT_EQ(agreement_of(all).rows[0],
            (std::vector<std::string>{"occlusion", "1.00", "1.00", "1.00"}));
  const report::Table values = agreement_of(all, TauOf::values);
  ASSERT_EQ(values.rows.size(), 2u);  // the Jacobian's norm has no sign to compare
  EXPECT_EQ(values.rows[0], (std::vector<std::string>{"occlusion", "1.00", "-1.00"}));
}

TEST(Explain, LayersStandInTheOrderOfTheData) {
  const auto run = run_of("translate", blocks({{"model", "transformer"}}));
  const std::vector<LayerSeen> layers = run->inside(Text{"3 May"})->attention();
  std::vector<std::string> names;
  for (const size_t i : natural_order(layers)) names.push_back(title_of(layers[i].name));
  EXPECT_EQ(names, (std::vector<std::string>{
                       "Encoder layer 1, self-attention", "Encoder layer 2, self-attention",
                       "Decoder layer 1, self-attention", "Decoder layer 1, cross-attention",
                       "Decoder layer 2, self-attention", "Decoder layer 2, cross-attention"}));
  EXPECT_EQ(title_of("look"), "Attention");
}

// softmax of what the terms of all keys of a row sum up to is that row of weights.
TEST(Explain, AQueryTimesAKeyIsItsScore) {
  const auto run = run_of("translate", blocks({{"model", "transformer"}}));
  const Inside in = run->inside(Text{"3 May"}).value();
  const auto keys = static_cast<int64_t>(in.inputs.size());
  std::vector<double> scores, weights;
  double total = 0;
  for (int64_t j = 0; j < keys; ++j) {
    const QueryAndKey qk = query_and_key(in, {"decoder.1.cross", 1, 2, j});
    ASSERT_TRUE(qk.whole);
    double sum = 0;
    for (size_t d = 0; d < qk.query.size(); ++d) {
      sum += qk.scale * static_cast<double>(qk.query[d]) * static_cast<double>(qk.key[d]);
    }
    scores.push_back(sum), weights.push_back(qk.weight), total += std::exp(sum);
  }
  for (size_t j = 0; j < scores.size(); ++j) {
    EXPECT_NEAR(std::exp(scores[j]) / total, weights[j], 1e-5);
  }
  const auto refused = [&](const WeightPlace& cell) {
    return error_of([&] { query_and_key(in, cell); });
  };
  EXPECT_TRUE(has(refused({"decoder.1.cross", 1, 2, keys}), "the column must be in 1 …"));
  EXPECT_TRUE(has(refused({"decoder.1.cross", -1, 0, 0}), "the head must be in 1 … 2, found 0"));
  EXPECT_TRUE(has(refused({"decoder.7.cross", 0, 0, 0}), "no layer"));
}

TEST(Explain, WhatIsNotKnownIsToldPieceByPiece) {
  const auto known = [](const tasks::Run& run, const std::string& text) {
    std::vector<std::pair<std::string, bool>> all;
    for (const Piece& p : run.pieces(Text{text})) all.emplace_back(p.text, p.known);
    return all;
  };
  using Pieces = std::vector<std::pair<std::string, bool>>;
  EXPECT_EQ(known(*run_of("translate", small({})), "3 漢"),
            (Pieces{{"3", true}, {" ", true}, {"漢", false}}));
  EXPECT_EQ(known(*run_of("documents", small({})), "The film Zyx."),
            (Pieces{{"The", true}, {"film", true}, {"Zyx", false}, {".", true}}));
  EXPECT_EQ(known(*run_of("lm", blocks({{"unit", "characters"}})), "a\nЖ"),
            (Pieces{{"a", true}, {"Ж", false}}));
}

TEST(Explain, UnknownPiecesOfATextShowThemselves) {
  const auto run = run_of("lm", blocks({{"context", "16"}, {"unit", "characters"}}));
  const Inside in = run->inside(Text{"Ж☃a\nb"}).value();
  EXPECT_EQ(in.inputs, (std::vector<std::string>{"Ж", "☃", "a", "⏎", "b"}));
  EXPECT_EQ(in.outputs.size(), 5u);
  EXPECT_EQ(run->inside(Text{std::string(100, 'a')})->inputs.size(), 16u);
  EXPECT_TRUE(has(error_of([&] { run->inside(Text{""}); }), "no text"));
}

// An attention layer applies another matrix to each input, a convolution the same.
TEST(Explain, FastAndSlowWeights) {
  const auto run = run_of("translate", small({}));
  std::vector<report::Heatmap> maps;
  for (const report::Picture& p :
       fast_and_slow(*run->inside(Text{"3 May 2021"}), *run->inside(Text{"7 May 1999"}), {})) {
    maps.push_back(p.get<report::Heatmap>());
  }
  ASSERT_EQ(maps.size(), 4u);
  EXPECT_TRUE(has(maps[0].title, "fast") && has(maps[1].title, "slow"));
  const auto cell = [](const report::Heatmap& map, size_t i, size_t j) {
    return map.weights[i * map.columns.size() + j];
  };
  float apart = 0;
  const size_t rows = std::min(maps[0].rows.size(), maps[2].rows.size());
  for (size_t i = 0; i + 1 < rows; ++i) {
    for (size_t j = 0; j + 1 < maps[1].columns.size() && j < 10; ++j) {
      EXPECT_EQ(cell(maps[1], i, j), cell(maps[3], i, j));          // for every input
      EXPECT_EQ(cell(maps[1], i, j), cell(maps[1], i + 1, j + 1));  // and at every place
      apart += std::abs(cell(maps[0], i, j) - cell(maps[2], i, j));
    }
  }
  EXPECT_GT(apart, 1e-3f);
}

TEST(Faithful, MeasuresWhatCanBeMeasured) {
  FaithfulSettings quick;
  quick.inputs = 3;
  quick.steps = 20;
  quick.permutations = 2;
  for (const Explained& one : all_explained()) {
    const auto run = run_of(one.task, one.options);
    const auto measured = [&] { return measure_faithful(*run, {}, {}, quick); };
    if (!one.looks || one.task == "lm") {
      EXPECT_TRUE(has(error_of([&] { measured(); }), "no look at the input")) << one.name;
      continue;
    }
    const FaithfulFound f = measured();
    EXPECT_EQ(f.inputs, 3) << one.name;
    for (const explain::Faithful& e : f.each) {
      for (const double tau : {e.tau_gradient, e.tau_left_out}) {
        EXPECT_TRUE(std::isnan(tau) || std::abs(tau) <= 1) << one.name;
      }
      for (const double change : {e.permuted, e.uniform}) {
        EXPECT_TRUE(change >= 0 && change <= 1.0001) << one.name << change;
      }
      EXPECT_TRUE(e.adversarial >= 0 && e.adversarial <= 0.694) << one.name << e.adversarial;
    }
    EXPECT_TRUE(has(verdict(f), "attention weights ")) << one.name;
    EXPECT_TRUE(has(verdict(f), "at most 0.69).")) << one.name;
    EXPECT_EQ(table_of(f).rows.size(), 6u) << one.name;
    EXPECT_EQ(page_of("x", f).sections.size(), 4u) << one.name;
  }
}

// A few outputs that change much move the mean, and the median not.
TEST(Faithful, TheVerdictIsNotTheMeansAlone) {
  FaithfulFound f;
  f.each.assign(10, {.tau_gradient = 0.8,
                     .tau_left_out = 0.7,
                     .permuted = 0.4,
                     .uniform = 0.4,
                     .uniform_distance = 0.3,
                     .adversarial = 0.05,
                     .largest = 0.9,
                     .inputs = 5});
  EXPECT_EQ(
      verdict(f),
      "The attention weights may be read as an explanation of these outputs. They rank the "
      "inputs much as gradients and leaving out do (Kendall's τ: median 0.75, mean 0.75; 1 is "
      "the same order, 0 no relation). Permuting them changes the outputs (total variation: "
      "median 0.40, mean 0.40, from 0 to 1; 100 % change by 0.1 or more). Only similar weights "
      "were found to give the same outputs (Jensen–Shannon: median 0.05, mean 0.05, at most "
      "0.69).");
  EXPECT_FALSE(has(verdict(f), "disagree")) << verdict(f);
  for (size_t i = 0; i < 6; ++i) f.each[i].permuted = 0.07;
  for (size_t i = 6; i < 10; ++i) f.each[i].permuted = 0.845;
  const std::string mixed = verdict(f);
  EXPECT_TRUE(has(mixed, "Permuting them changes most outputs little")) << mixed;
  EXPECT_TRUE(has(mixed, "median 0.07, mean 0.38, from 0 to 1; 40 % change by 0.1 or more"))
      << mixed;
  EXPECT_TRUE(mixed.starts_with("Do not read the attention weights as the reason")) << mixed;
  EXPECT_TRUE(has(mixed, "Median and mean disagree on what permuting changes:")) << mixed;
  for (size_t i = 0; i < 4; ++i) f.each[i].tau_gradient = f.each[i].tau_left_out = -0.2;
  EXPECT_TRUE(has(verdict(f), "disagree on how the inputs are ranked and what permuting changes"));
  EXPECT_EQ(to_json(f)["medians"]["permuted"], 0.07);
}

TEST(Faithful, StandsBesideOtherRuns) {
  FaithfulSettings quick;
  quick.inputs = 4;
  quick.steps = 2;
  quick.permutations = 1;
  const auto run = run_of("translate", small({})), same = run_of("translate", small({})),
             fixed = run_of("translate", small({{"context", "fixed"}}));
  tasks::Run* const twin[] = {same.get()};
  const FaithfulFound f = measure_faithful(*run, {}, twin, quick);
  ASSERT_FALSE(f.seeds.empty());
  for (const double distance : f.seeds) EXPECT_NEAR(distance, 0, 1e-6);
  EXPECT_EQ(table_of(f).rows.size(), 7u);
  tasks::Run* const without[] = {fixed.get()};
  const FaithfulFound g = measure_faithful(*run, {}, without, quick);
  EXPECT_TRUE(g.seeds.empty());
  EXPECT_EQ(g.implicit.size(), 1u);
}

}  // namespace
}  // namespace fovea::tasks
