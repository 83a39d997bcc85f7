#include "tasks/lm/over_ranks.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "io/files.h"
#include "tests/errors.h"
#include "tests/team/threads.h"
#include "train/loop.h"

// Windows over teams of threads, held against a team of one bit for bit, and against windows that
// nobody shares.
namespace fovea::tasks::lm {
namespace {

using team::Team;
using team::tests::Threads;
using team::tests::told;
using test::error_of;
using test::Folder;

const std::vector<std::string> kLines(40, "a line of abba and baba, and back");

LanguageModel model_of(const LmConfig& c) {
  LanguageModel m;
  m.config = c;
  m.tokenizer = text::Tokenizer::train({}, kLines);
  m.config.network.target_vocabulary = m.tokenizer.size();
  m.config.network.longest = c.context;
  m.model = models::transformer(m.config.network, 1);
  return m;
}

LmConfig small() {
  LmConfig c;
  c.data.file = "lines";
  c.context = 70;  // 64 chunks of one row, six of which have two
  c.context_ranks = true;
  c.network = {.blocks = 2, .depth = 8, .heads = 2};
  c.train = {.steps = 2, .clip = 1.0f, .validate_every = 1};
  c.train.optimizer.method = train::Method::sgd;
  c.train.batch_tokens = 150;
  c.watch = "loss";
  return c;
}

std::vector<float> numbers_of(const Tensors& all) {
  std::vector<float> numbers;
  for (const auto& [name, tensor] : all) {
    const std::vector<float> some = tensor.to_vector();
    numbers.insert(numbers.end(), some.begin(), some.end());
  }
  return numbers;
}

struct Learned {
  std::vector<float> weights;  // after two steps
  double loss = 0;             // of the last validation
};

Learned learned(const LmConfig& c, int ranks) {
  const Folder folder;
  const LmSets sets{.train = kLines, .valid = {kLines.begin(), kLines.begin() + 5}};
  std::vector<Learned> all(static_cast<size_t>(ranks));
  const auto thrown = Threads(ranks).run([&](Team& team) {
    const LanguageModel m = model_of(c);
    train::Learner learner = lm::learner(m, sets, {.team = &team});
    std::optional<train::RunLog> log;
    if (team.is_first()) log.emplace(folder / "");
    const train::Finished done =
        train::train({.log = log ? &*log : nullptr, .team = team}, learner, m.config.train);
    Learned& mine = all[static_cast<size_t>(team.rank())];
    mine.weights = numbers_of(learner.parameters);
    mine.loss = done.best.front().second;
  });
  for (const std::exception_ptr& one : thrown) EXPECT_EQ(told(one), "");
  for (const Learned& one : all) {
    EXPECT_EQ(one.loss, all[0].loss);
    EXPECT_EQ(one.weights, all[0].weights);
  }
  return all[0];
}

void check(const LmConfig& c, const std::string& what, const std::vector<int>& others = {3}) {
  const testing::ScopedTrace trace(__FILE__, __LINE__, what);
  const Learned one = learned(c, 1);
  const LanguageModel untrained = model_of(c);
  const std::vector<float> start = numbers_of(untrained.model.weights.learned());
  EXPECT_NE(one.weights, start);
  for (const int ranks : others) {
    const Learned found = learned(c, ranks);
    ASSERT_EQ(found.weights.size(), one.weights.size());
    EXPECT_EQ(
        std::memcmp(found.weights.data(), one.weights.data(), one.weights.size() * sizeof(float)),
        0)
        << ranks << " ranks";
    EXPECT_EQ(found.loss, one.loss) << ranks << " ranks";
  }
  if (c.loss.dropout > 0) return;  // drawn otherwise
  LmConfig plain = c;
  plain.context_ranks = false;
  const Learned whole = learned(plain, 1);
  EXPECT_NEAR(one.loss, whole.loss, 1e-5);
  for (size_t i = 0; i < whole.weights.size(); ++i) {
    ASSERT_NEAR(one.weights[i], whole.weights[i], 2e-6) << i;
  }
}

TEST(OverRanks, EveryKindOfPositionsLearnsTheSame) {
  using nn::Positions;
  for (const Positions p : {Positions::none, Positions::sinusoidal, Positions::learned,
                            Positions::rotary, Positions::alibi, Positions::t5}) {
    LmConfig c = small();
    c.network.positions = p;
    check(c, name_of(p));
  }
}

TEST(OverRanks, OtherModelsLearnTheSame) {
  LmConfig c = small();
  c.network.score = "additive";
  c.network.order = nn::NormOrder::post;
  c.network.tied = false;
  check(c, "additive, post");
  c = small();
  c.network.key_heads = 1;
  c.network.norm = nn::NormKind::rms;
  c.network.activation = nn::Activation::swiglu;
  c.network.shared_blocks = true;
  check(c, "shared keys, RMS, gates, one block twice");
  c = small();
  c.network.linear = true;
  check(c, "linear");
}

TEST(OverRanks, BatchesDropoutAndAveragesLearnTheSame) {
  LmConfig c = small();
  c.train.batches = 3;
  check(c, "three batches", {2, 4});
  c.train.average = 0.5f;
  c.train.optimizer.method = train::Method::adamw;
  c.loss.dropout = 0.2f;
  c.loss.label_smoothing = 0.1f;
  check(c, "dropout");
}

TEST(OverRanks, WhatCannotBeSharedIsSaid) {
  const auto said = [](const LmConfig& c, int64_t window) {
    const LanguageModel m = model_of(c);
    return error_of([&] { check_shared(m, window, team::alone()); });
  };
  LmConfig c = small();
  EXPECT_EQ(said(c, 70), "no error");
  EXPECT_EQ(said(c, 63), "[train] --context-ranks: windows of 64 tokens or more, found 63");
  c.network.weighting = "sparsemax";
  EXPECT_NE(said(c, 70).find("the weighting sparsemax needs the scores of a whole row"),
            std::string::npos)
      << said(c, 70);
  const LanguageModel m = model_of(small());
  const auto thrown = Threads(33).run([&](Team& team) { check_shared(m, 70, team); });
  EXPECT_EQ(told(thrown[0]),
            "[train] --context-ranks: 32 processes at most share a window of 70 tokens, found 33");
}

}  // namespace
}  // namespace fovea::tasks::lm
