#include <cmath>
#include <limits>

#include "on_device.h"
#include "tests/tensor/check.h"

namespace fovea {
namespace {

void log_softmax_row(double* x, int64_t n) {
  double sum = 0.0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i]);
  for (int64_t i = 0; i < n; ++i) x[i] -= std::log(sum);
}

Array swapped(const Array& x) {
  Array y({x.shape[1], x.shape[0]});
  for (int64_t i = 0; i < y.size(); ++i) y.v[i] = x({i % x.shape[0], i / x.shape[0]});
  return y;
}

TEST(Softmax, AlongAnyDimension) {
  for (const int64_t n : {1, 3, 16, 37}) {
    check({"softmax",
           {{3, n}},
           [](const Operands& x) { return softmax(x[0]); },
           [](const Arrays& x) {
             return each(rows(x[0], log_softmax_row), [](double e) { return std::exp(e); });
           }});
    check({"log_softmax",
           {{3, n}},
           [](const Operands& x) { return log_softmax(x[0]); },
           [](const Arrays& x) { return rows(x[0], log_softmax_row); }});
  }
  check({"log_softmax, dimension 0",
         {{5, 2}},
         [](const Operands& x) { return log_softmax(x[0], 0); },
         [](const Arrays& x) { return swapped(rows(swapped(x[0]), log_softmax_row)); }});
}

TEST(Softmax, ExtremeRows) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const std::string& name : test::tested_isas()) {
    use_isa(name);
    const Tensor x =
        Tensor::from({-inf, -inf, -inf, 1000, 1000, -inf, -1e30f, -1e30f, -1e30f}, {3, 3});
    const auto y = softmax(x).to_vector();
    EXPECT_EQ(y[0], 0.0f);
    EXPECT_EQ(y[2], 0.0f);
    EXPECT_EQ(y[3], 0.5f);
    EXPECT_EQ(y[5], 0.0f);
    EXPECT_NEAR(y[6], 1.0f / 3, 1e-6);
    EXPECT_NEAR(log_softmax(x).to_vector()[3], -std::log(2.0f), 1e-6);
    EXPECT_EQ(log_softmax(x).to_vector()[5], -inf);
  }
  use_isa("");
}

TEST(Softmax, Empty) {
  EXPECT_EQ(softmax(Tensor::zeros({0, 3})).shape(), (Shape{0, 3}));
  EXPECT_EQ(softmax(Tensor::zeros({3, 0})).shape(), (Shape{3, 0}));
}

TEST(CrossEntropy, EveryOption) {
  const std::vector<int64_t> targets{1, -1, 4, 0};
  for (const float s : {0.0f, 0.1f}) {
    for (const Reduction r : {Reduction::mean, Reduction::sum, Reduction::none}) {
      check({"cross_entropy",
             {{2, 2, 5}},
             [&](const Operands& x) {
               return cross_entropy(x[0], Tensor::from_ids(targets, {2, 2}),
                                    {.label_smoothing = s, .ignore_index = -1, .reduction = r});
             },
             [&](const Arrays& x) {
               const Array lp = rows(x[0], log_softmax_row);
               Array loss({2, 2});
               double sum = 0.0;
               for (int64_t i = 0; i < 4; ++i) {
                 if (targets[i] < 0) continue;
                 loss.v[i] = -(1.0 - s) * lp.v[i * 5 + targets[i]];
                 for (int64_t c = 0; c < 5; ++c) loss.v[i] -= s / 5.0 * lp.v[i * 5 + c];
                 sum += loss.v[i];
               }
               if (r == Reduction::none) return loss;
               return Array({}, r == Reduction::mean ? sum / 3 : sum);
             }});
    }
  }
}

TEST(CrossEntropy, AllIgnored) {
  Tensor x = Tensor::zeros({2, 3}).set_requires_grad();
  const Tensor loss = cross_entropy(x, Tensor::arange(2), {.ignore_index = 0});
  EXPECT_NEAR(loss.item(), std::log(3.0f), 1e-6);
  const std::vector<int64_t> none{-100, -100};
  const Tensor zero = cross_entropy(x, Tensor::from_ids(none, {2}));
  EXPECT_EQ(zero.item(), 0.0f);
  zero.backward();
  EXPECT_EQ(x.grad().to_vector(), std::vector<float>(6, 0.0f));
}

TEST(CrossEntropy, Errors) {
  EXPECT_EQ(error_of([] {
              cross_entropy(Tensor::zeros({2, 3}), Tensor::arange(3));
            }),
            "[cross_entropy] logits is [2, 3], targets is [3], expected [..,C] and [..]");
  EXPECT_EQ(error_of([] {
              cross_entropy(Tensor::zeros({4, 3}), Tensor::arange(4));
            }),
            "[cross_entropy] target 3 is not in 0 … 2");
}

}  // namespace
}  // namespace fovea
