#include "fovea/convolution.h"

#include <gtest/gtest.h>

#include "nn/check.h"
#include "tests/slopes.h"

namespace fovea::nn {
namespace {

void set(const Tensor& t, float value) {
  const NoGrad off;
  Tensor(t).fill_(value);
}

void expect_slopes(const Weights& weights, const std::function<Tensor()>& f) {
  for (const auto& [name, t] : weights.learned()) Tensor(t).zero_grad();
  f().backward();
  test::expect_slopes(weights.learned(), [&] { return static_cast<double>(f().item()); });
}

TEST(NormedConv, NormalisesTheBatchAndRemembersIt) {
  Weights w(1);
  const NormedConv conv = normed_conv(w, "c", {.in = 2, .out = 3, .size = 3, .stride = 2});
  const Tensor x = Tensor::randn({8, 2, 6, 6}, 4) * 3.0f + 1.0f;
  const Tensor y = conv(x, Mode::train);
  ASSERT_EQ(y.shape(), (Shape{8, 3, 3, 3}));
  for (const float m : mean(y, {0, 2, 3}).to_vector()) EXPECT_NEAR(m, 0, 1e-5);
  for (const float v : mean(square(y), {0, 2, 3}).to_vector()) EXPECT_NEAR(v, 1, 1e-3);
  for (int i = 0; i < 100; ++i) conv(x, Mode::train);
  expect_near(conv(x, Mode::eval), y, "by running statistics", 2e-2, 2e-2);
  EXPECT_EQ(w.buffers().size(), 2u);
}

TEST(NormedConv, GradientsAreSlopes) {
  Weights w(2);
  const NormedConv conv = normed_conv(w, "c", {.in = 2, .out = 3});
  const Tensor x = Tensor::randn({3, 2, 4, 5}, 4), d = Tensor::randn({3, 3, 4, 5}, 5);
  expect_slopes(w, [&] { return sum(conv(x, Mode::train) * d); });
}

TEST(NormedConv, RefusesWhatIsNoWindow) {
  Weights w(1);
  EXPECT_NE(error_of([&] { normed_conv(w, "c", {.in = 2, .out = 3, .size = 4}); }), "no error");
  EXPECT_NE(error_of([&] { normed_conv(w, "c", {.in = 0, .out = 3}); }), "no error");
}

TEST(ResidualConv, KeepsTheShapeAndTheInput) {
  Weights w(1);
  const ResidualConv block = residual_conv(w, "b", 4);
  set(block.second.scale, 0.0f);  // then f(x) = 0
  const Tensor x = abs(Tensor::randn({2, 4, 5, 5}, 3));
  expect_near(block(x, Mode::train), x, "the input alone");
}

TEST(GridAttention, BeginsAsIfItWereNotThere) {
  Weights w(1);
  const GridAttention layer = grid_attention(w, "a", {.channels = 6, .heads = 2, .depth = 3});
  const Tensor x = Tensor::randn({2, 6, 3, 4}, 3);
  expect_near(layer(x).y, x, "γ = 0");
  sum(layer(x).y * Tensor::randn({2, 6, 3, 4}, 4)).backward();
  EXPECT_NE(layer.gate.grad().to_vector()[0], 0.0f);  // and yet it will move
}

TEST(GridAttention, WeightsAreOfEveryPlaceOverAll) {
  Weights w(1);
  const GridAttention layer = grid_attention(w, "a", {.channels = 6, .heads = 2, .depth = 3});
  const Tensor x = Tensor::randn({2, 6, 3, 4}, 3);
  EXPECT_FALSE(layer(x).weights);
  const Tensor weights = layer(x, GridAttention::Keep::weights).weights;
  ASSERT_EQ(weights.shape(), (Shape{2, 2, 12, 12}));
  for (const float s : sum(weights, {3}).to_vector()) EXPECT_NEAR(s, 1, 1e-5);
}

// By its formula, in plain tensor operations.
TEST(GridAttention, IsItsFormula) {
  Weights w(1);
  const GridAttention layer = grid_attention(w, "a", {.channels = 5, .heads = 1, .depth = 4});
  set(layer.gate, 0.7f);
  const Tensor x = Tensor::randn({2, 5, 3, 4}, 3), rows = rows_of_grid(x);
  const Tensor scores = matmul(layer.queries(rows), layer.keys(rows).transpose(1, 2)) / 2.0f;  // √4
  const Tensor expected =
      x + 0.7f * grid_of_rows(layer.out(matmul(softmax(scores), layer.values(rows))), 3, 4);
  expect_near(layer(x).y, expected, "y", 1e-4, 1e-5);
  set(layer.gate, 0.3f);
  const Tensor d = Tensor::randn(x.shape(), 9);
  expect_slopes(w, [&] { return sum(layer(x).y * d); });
}

TEST(GridAttention, KnowsNoPlaces) {
  Weights w(3);
  const GridAttention layer = grid_attention(w, "a", {.channels = 4, .heads = 2, .depth = 3});
  set(layer.gate, 1.0f);
  const Tensor x = Tensor::randn({1, 4, 2, 3}, 3);
  const Tensor order = Tensor::from_ids(std::vector<int64_t>{4, 0, 5, 2, 1, 3}, {6});
  const auto moved = [&](const Tensor& grid) {
    return grid_of_rows(index_select(rows_of_grid(grid), 1, order), 2, 3);
  };
  expect_near(layer(moved(x)).y, moved(layer(x).y), "places in another order", 1e-4, 1e-5);
}

}  // namespace
}  // namespace fovea::nn
