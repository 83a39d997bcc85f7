#include <gtest/gtest.h>

#include <algorithm>

#include "core/random.h"
#include "fovea/ops.h"
#include "fovea/train.h"
#include "tasks/inside_blocks.h"
#include "tasks/transformer_inside.h"

// Two layers that learned to go on with what comes again have a head that finds what followed
// (Olsson et al. 2022); fresh ones have none.
namespace fovea::tasks {
namespace {

constexpr int64_t kVocabulary = 36, kLength = 49, kRows = 12, kSteps = 600;

// Rows of random tokens, each with a period of its own.
Tensor periodic(const Seed& seed) {
  std::vector<int64_t> ids;
  for (int64_t r = 0; r < kRows; ++r) {
    const Seed row = seed.at(r);
    const auto period = static_cast<int64_t>(5 + row.at("period").value() % 20);
    for (int64_t i = 0; i < kLength; ++i) {
      ids.push_back(static_cast<int64_t>(4 + row.at(i % period).value() % (kVocabulary - 4)));
    }
  }
  return Tensor::from_ids(ids, {kRows, kLength});
}

models::Transformer fresh_model(uint64_t seed) {
  const models::TransformerConfig config{.target_vocabulary = kVocabulary,
                                         .blocks = 2,
                                         .depth = 32,
                                         .heads = 1,
                                         .mlp_width = 32,
                                         .tied = false};
  return models::transformer(config, nn::Weights(seed));
}

void learn(models::Transformer& m, uint64_t seed) {
  train::Optimizer adam({}, m.weights.learned());
  for (int64_t step = 0; step < kSteps; ++step) {
    const models::Loss l = models::loss(m, periodic(Seed(seed).at(step)));
    for (const auto& [name, t] : m.weights.learned()) Tensor(t).zero_grad();
    l.loss.backward();
    train::clip_by_norm(m.weights.learned(), 1.0f);
    const float warm = std::min(1.0f, static_cast<float>(step + 1) / 30.0f);
    const float left = 1.0f - 0.9f * static_cast<float>(step) / kSteps;
    adam.step(5e-3f * warm * left);
  }
}

std::vector<std::string> names_of_heads(const models::Transformer& m) {
  Inside in{.inputs = {"a", "b", "c", "d"}, .outputs = {"b", "c", "d", "e"}};
  look_inside_decoder(m, {5, 6, 7, 8}, {6, 7, 8, 9}, in);
  std::vector<std::string> names;
  for (const HeadFound& h : patterns_of(in)) names.emplace_back(h.does);
  return names;
}

TEST(Induction, IsLearnedFromWhatComesTwice) {
  for (const uint64_t seed : {1, 2, 3}) {
    models::Transformer m = fresh_model(seed);
    EXPECT_EQ(std::ranges::count(names_of_heads(m), "induction"), 0) << seed;
    learn(m, seed);
    const std::vector<std::string> names = names_of_heads(m);
    EXPECT_EQ(names.at(0), "previous") << seed;  // what the second layer's is made of
    EXPECT_EQ(names.at(1), "induction") << seed;
  }
}

}  // namespace
}  // namespace fovea::tasks
