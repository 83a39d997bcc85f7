// A Transformer that learns in bf16, beside itself in float32.
#include "tests/bf16.h"

#include "fovea/train.h"
#include "fovea/transformer.h"

namespace fovea {
namespace {

Tensor some_ids(int64_t B, int64_t T, int64_t V) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < B * T; ++i) ids.push_back((i * i + 3 * i) % V);
  return Tensor::from_ids(ids, {B, T});
}

std::vector<float> losses(DType type, int64_t steps) {
  const models::TransformerConfig c{.target_vocabulary = 101,
                                    .blocks = 2,
                                    .depth = 64,
                                    .heads = 2,
                                    .positions = nn::Positions::learned,
                                    .longest = 64};
  models::Transformer m = models::transformer(c, 7);
  train::Optimizer optimizer({.method = train::Method::adamw}, m.weights.all());
  std::vector<float> all;
  for (int64_t s = 0; s < steps; ++s) {
    for (const auto& [name, w] : m.weights.all()) Tensor(w).zero_grad();
    models::LossConfig how;
    how.type = type;
    const Tensor loss = models::loss(m, some_ids(4, 65, 101), how).loss;
    loss.backward();
    optimizer.step(1e-3f);
    all.push_back(loss.item());
  }
  return all;
}

TEST(Bf16Model, LearnsAsInFloats) {
  if (!test::computes_bf16()) GTEST_SKIP();
  const std::vector<float> floats = losses(DType::f32, 40), halves = losses(DType::bf16, 40);
  for (size_t i = 0; i < floats.size(); ++i) EXPECT_NEAR(halves[i], floats[i], 1e-2f) << i;
  EXPECT_LT(halves.back(), halves.front() - 1.0f);
  EXPECT_EQ(halves, losses(DType::bf16, 40));
}

}  // namespace
}  // namespace fovea
