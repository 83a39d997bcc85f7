#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "fovea/nn.h"
#include "fovea/runtime.h"
#include "tests/nn/check.h"

namespace fovea::nn {
namespace {

TEST(Weights, StartFromSeedAndNameAlone) {
  Weights a(3), b(3), other(4);
  const Tensor first = a.add("first", {4, 5}, Init::uniform);
  b.add("something", {70}, Init::normal);
  EXPECT_EQ(first.to_vector(), b.add("first", {4, 5}, Init::uniform).to_vector());
  EXPECT_NE(first.to_vector(), a.add("second", {4, 5}, Init::uniform).to_vector());
  EXPECT_NE(first.to_vector(), other.add("first", {4, 5}, Init::uniform).to_vector());
  EXPECT_TRUE(first.requires_grad());
  EXPECT_EQ(a.all().at("first").impl(), first.impl());
  EXPECT_EQ(a.count(), 40);
}

TEST(Weights, AreThoseThatAreGiven) {
  const Tensor gate = Tensor::randn({2, 3}, 1), mean = Tensor::randn({2}, 2);
  Weights w = Weights::given({{"gate", gate}, {"mean", mean}, {"other", mean}});
  EXPECT_EQ(w.add("gate", {2, 3}, Init::uniform).impl(), gate.impl());
  EXPECT_EQ(w.add_buffer("mean", {2}, 0.0f).impl(), mean.impl());
  EXPECT_FALSE(w.learned().at("gate").requires_grad());
  EXPECT_EQ(w.all().size(), 2u);
  EXPECT_EQ(error_of([&] { w.add("other", {3}, Init::zeros); }),
            "[load] other is [2], expected [3]");
  EXPECT_EQ(error_of([&] { w.add("none", {3}, Init::zeros); }),
            "[load] none is undefined, expected [3]");
}

TEST(Weights, NamesAreUnique) {
  Weights w;
  w.add("gate", {2}, Init::zeros);
  EXPECT_EQ(error_of([&] { w.add("gate", {2}, Init::zeros); }), "[weights] gate is there already");
}

TEST(Weights, BuffersAreSavedAndNotLearned) {
  Weights w;
  const Tensor gain = w.add("gain", {2}, Init::zeros);
  Tensor mean = w.add_buffer("mean", {2}, 0.0f), var = w.add_buffer("var", {3}, 1.5f);
  EXPECT_EQ(var.to_vector(), std::vector<float>(3, 1.5f));
  EXPECT_FALSE(var.requires_grad());
  EXPECT_EQ(w.count(), 2);
  ASSERT_EQ(w.learned().size(), 1u);
  EXPECT_EQ(w.learned().at("gain").impl(), gain.impl());
  EXPECT_EQ(w.buffers().size(), 2u);
  EXPECT_EQ(w.all().size(), 3u);
  EXPECT_EQ(w.all().at("mean").impl(), mean.impl());
  mean.fill_(7.0f);
  EXPECT_EQ(w.buffers().at("mean").to_vector(), std::vector<float>(2, 7.0f));

  Weights other;
  other.add("gain", {2}, Init::zeros);
  other.add_buffer("mean", {2}, 0.0f);
  const Tensor loaded = other.add_buffer("var", {3}, 0.0f);
  other.load(w.all());
  EXPECT_EQ(loaded.to_vector(), var.to_vector());
  EXPECT_FALSE(loaded.requires_grad());
  EXPECT_EQ(error_of([&] { other.load(w.learned()); }), "[load] mean is missing, expected [2]");
  EXPECT_EQ(error_of([&] { w.add_buffer("gain", {2}, 0.0f); }), "[weights] gain is there already");
  EXPECT_EQ(error_of([&] { w.add("mean", {2}, Init::zeros); }), "[weights] mean is there already");
  EXPECT_EQ(w.learned().size(), 1u);
}

// The largest value and the standard deviation of 300·200 numbers.
void expect_spread(Init init, const Shape& shape, double largest, double deviation) {
  Weights w(5);
  const auto v = w.add("w", shape, init).to_vector();
  double squares = 0.0, sum = 0.0, top = 0.0;
  for (const float x : v) {
    squares += x * x;
    sum += x;
    top = std::max(top, std::abs(static_cast<double>(x)));
  }
  const double n = static_cast<double>(v.size());
  EXPECT_NEAR(std::sqrt(squares / n), deviation, 0.02 * deviation);
  EXPECT_NEAR(sum / n, 0.0, 0.02 * deviation);
  EXPECT_LE(top, largest * 1.000001);
  EXPECT_GT(top, largest * 0.7);
}

TEST(Weights, Spreads) {
  const double uniform = 1.0 / std::sqrt(200.0), xavier = std::sqrt(6.0 / 500.0);
  expect_spread(Init::uniform, {300, 200}, uniform, uniform / std::sqrt(3.0));
  expect_spread(Init::xavier, {300, 200}, xavier, xavier / std::sqrt(3.0));
  expect_spread(Init::normal, {300, 200}, 0.6, 0.1);
  // a convolution's taps count as inputs
  expect_spread(Init::uniform, {300, 20, 2, 5}, uniform, uniform / std::sqrt(3.0));
  Weights w;
  for (const float x : w.add("z", {7}, Init::zeros).to_vector()) EXPECT_EQ(x, 0.0f);
}

TEST(Weights, OrthogonalBlocks) {
  constexpr int64_t n = 37, rows = 2 * n + 5;
  Weights w(6);
  const auto q = w.add("q", {rows, n}, Init::orthogonal).to_vector();
  double fourth = 0.0;
  for (int64_t a = 0; a < rows; ++a) {
    for (int64_t b = a / n * n; b < std::min(rows, a / n * n + n); ++b) {
      double dot = 0.0;
      for (int64_t j = 0; j < n; ++j) dot += static_cast<double>(q[a * n + j]) * q[b * n + j];
      EXPECT_NEAR(dot, a == b ? 1.0 : 0.0, 1e-6) << a << " " << b;
    }
    for (int64_t j = 0; j < n; ++j) fourth += std::pow(q[a * n + j], 4);
  }
  EXPECT_NEAR(fourth / rows, 3.0 / (n + 2), 0.3 / n);  // as of a vector drawn from the sphere
  EXPECT_NE(q[0], q[n * n]);
  EXPECT_EQ(error_of([&] {
              w.add("cube", {2, 2, 2}, Init::orthogonal);
            }),
            "[weights] cube is orthogonal and must be [rows, columns], found [2, 2, 2]");
}

TEST(Weights, Load) {
  Weights w;
  const Tensor a = w.add("a", {2}, Init::zeros), b = w.add("b", {1, 2}, Init::zeros);
  const Tensor va = Tensor::from({1, 2}, {2}), vb = Tensor::from({3, 4}, {1, 2});
  w.load({{"a", va}, {"b", vb}});
  EXPECT_EQ(a.to_vector(), va.to_vector());
  EXPECT_EQ(b.to_vector(), vb.to_vector());
  EXPECT_TRUE(a.requires_grad());

  const Tensor other = Tensor::from({9, 9}, {2});
  EXPECT_EQ(error_of([&] { w.load({{"a", other}}); }), "[load] b is missing, expected [1, 2]");
  EXPECT_EQ(error_of([&] {
              w.load({{"a", other}, {"b", other}});
            }),
            "[load] b is [2], expected [1, 2]");
  EXPECT_EQ(error_of([&] {
              w.load({{"a", other}, {"b", Tensor::arange(2).reshape({1, 2})}});
            }),
            "[load] b is i64, expected f32");
  EXPECT_EQ(error_of([&] {
              w.load({{"a", other}, {"b", vb}, {"c", other}});
            }),
            "[load] c [2] is not known, expected one of 2 other tensors");
  EXPECT_EQ(a.to_vector(), va.to_vector());  // nothing was copied
}

TEST(Weights, OfASketchAreCountedWithoutTheirMemory) {
  const int64_t before = memory_in_use();
  Weights sketch = Weights::sketch();
  const Linear layer = linear(sketch, "huge", 1 << 20, 1 << 20);
  embedding(sketch, "words", 3, 5);
  sketch.add_buffer("mean", {int64_t{1} << 40}, 0.0f);
  EXPECT_EQ(layer.weight.shape(), (Shape{1 << 20, 1 << 20}));
  EXPECT_EQ(sketch.count(), (int64_t{1} << 40) + (1 << 20) + 15);
  EXPECT_LT(memory_in_use() - before, 1 << 16);
}

}  // namespace
}  // namespace fovea::nn
