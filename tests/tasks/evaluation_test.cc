#include "tasks/evaluation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "small.h"
#include "tests/errors.h"

namespace fovea::tasks {
namespace {

using Json = nlohmann::ordered_json;

Evaluation some() {
  return {
      .count = 9,
      .unit = "sentences",
      .of = "the test set",
      .scores = {{"loss", 0.5}, {"bleu", 31.25}},
      .breakdowns = {
          {"length", {{Between{1, 4}, 4, {{"bleu", 40.0}}}, {Between{5, 12}, 5, {{"bleu", 20.5}}}}},
          {"kind", {{std::string("dates"), 9, {{"bleu", 31.25}}}}}}};
}

TEST(Evaluation, IsJsonAsFilesHaveIt) {
  EXPECT_EQ(to_json(some()).dump(),
            R"({"sentences":9,"scores":{"loss":0.5,"bleu":31.25},)"
            R"("by_length":[{"from":1,"to":4,"sentences":4,"scores":{"bleu":40.0}},)"
            R"({"from":5,"to":12,"sentences":5,"scores":{"bleu":20.5}}],)"
            R"("by_kind":[{"what":"dates","sentences":9,"scores":{"bleu":31.25}}]})");
}

TEST(Evaluation, ComesBackFromJson) {
  const Evaluation e = evaluation_from_json(to_json(some()));
  EXPECT_EQ(to_json(e).dump(), to_json(some()).dump());
  EXPECT_EQ(e.count, 9);
  EXPECT_EQ(e.unit, "sentences");
  ASSERT_EQ(e.breakdowns.size(), 2u);
  EXPECT_EQ(label_of(e.breakdowns[0].parts[1]), "5–12");
  EXPECT_EQ(label_of(e.breakdowns[1].parts[0]), "dates");
  EXPECT_EQ(score_of(e.scores, "bleu"), 31.25);
  EXPECT_TRUE(std::isnan(score_of(e.scores, "chrf")));
}

TEST(Evaluation, WhatIsNotFiniteComesBackAsNoNumber) {
  Evaluation e = some();
  e.scores[0].second = INFINITY;
  EXPECT_TRUE(std::isnan(evaluation_from_json(Json::parse(to_json(e).dump())).scores[0].second));
}

TEST(Evaluation, IsATextWithATableOfItsParts) {
  EXPECT_EQ(to_text(some()),
            "9 sentences of the test set\n"
            "  loss            0.500\n"
            "  bleu           31.250\n"
            "\n"
            "  length  sentences   bleu\n"
            "  1–4             4  40.00\n"
            "  5–12            5  20.50\n");  // one part alone says nothing
}

TEST(Evaluation, DamagedJsonIsRefused) {
  for (const char* damaged :
       {"{}", "[]", "3", R"({"scores": {}})", R"({"sentences": 3})",
        R"({"sentences": "x", "scores": {}})", R"({"sentences": 3, "scores": {"bleu": "x"}})",
        R"({"sentences": 3, "scores": {}, "by_length": [{"from": 1}]})"}) {
    EXPECT_ANY_THROW(evaluation_from_json(Json::parse(damaged))) << damaged;
  }
}

// Where nothing is held out to test, the final scores and eval are both of what validated.
TEST(Evaluation, SaysWhoseScoresTheyAre) {
  for (const Task* task : task_table()) {
    SCOPED_TRACE(task->name);
    Numbers numbers;
    task->config()->visit(numbers);
    for (const std::string share : {"0.2", "0"}) {
      Given typed = small_training(*task, 1);
      if (numbers.names.contains("test-share")) typed["test-share"] = share;
      const auto run = task->begin(*config_from(*task, typed), nullptr);
      const auto judged = [&](Set set) {
        return run->evaluate({.file = "", .set = set}, *task->evaluate_settings());
      };
      const bool tests = share != "0" || !numbers.names.contains("test-share") ||
                         task->name == "caption";  // of scenes one is held out at least
      const std::string valid = "the validation set, which chose the weights";
      const Evaluation final = run->final_scores();
      EXPECT_EQ(final.of, tests ? "the test set" : valid);
      EXPECT_EQ(judged(Set::test).of, final.of);
      EXPECT_EQ(judged(Set::test).count, final.count);
      EXPECT_EQ(judged(Set::valid).of, valid);
      EXPECT_TRUE(tests || judged(Set::valid).count == final.count);
      EXPECT_EQ(judged(Set::train).of, "the training set");
      EXPECT_EQ(to_text(final).find("held-out"), std::string::npos);
      EXPECT_EQ(run->inputs({}, 3).empty(), task->name == "glimpse");
    }
  }
}

}  // namespace
}  // namespace fovea::tasks
