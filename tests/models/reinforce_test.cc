#include "fovea/reinforce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "fovea/ops.h"
#include "tests/errors.h"

namespace fovea::models {
namespace {

// ---- Returns, coins and the sum itself ---------------------------------------------------------

TEST(Returns, SumWhatFollowsDiscounted) {
  const Tensor r = Tensor::from({1, 10, 2, 20, 4, 40}, {3, 2});
  EXPECT_EQ(returns(r, 1.0f).to_vector(), (std::vector<float>{7, 70, 6, 60, 4, 40}));
  EXPECT_EQ(returns(r, 0.5f).to_vector(), (std::vector<float>{3, 30, 4, 40, 4, 40}));
  EXPECT_EQ(returns(r, 0.0f).to_vector(), r.to_vector());
  EXPECT_EQ(returns(r.transpose(0, 1), 0.5f).to_vector(),  // any strides
            (std::vector<float>{1 + 5, 2 + 10, 4 + 20, 10, 20, 40}));
  EXPECT_EQ(returns(Tensor::zeros({0, 3}), 0.5f).shape(), (Shape{0, 3}));
  Tensor leaf = r.clone();
  leaf.set_requires_grad();
  EXPECT_FALSE(returns(leaf * 2.0f, 0.5f).requires_grad());
  EXPECT_NE(test::error_of([] { returns(Tensor::scalar(1.0f), 1.0f); }), "no error");
}

TEST(RowsToExpect, AreAShareDrawnBySeed) {
  const auto count = [](float share, uint64_t seed) {
    return sum(rows_to_expect(10000, share, seed).to(DType::f32)).item();
  };
  EXPECT_EQ(count(0.0f, 1), 0.0f);
  EXPECT_EQ(count(1.0f, 1), 10000.0f);
  EXPECT_NEAR(count(0.3f, 1), 3000.0f, 5 * std::sqrt(2100.0f));
  const auto rows = [](int64_t n, uint64_t seed) {
    return rows_to_expect(n, 0.5f, seed).to(DType::f32).to_vector();
  };
  EXPECT_EQ(rows(100, 1), rows(100, 1));
  EXPECT_NE(rows(100, 1), rows(100, 2));
  const std::vector<float> more = rows(200, 1);
  EXPECT_EQ(rows(100, 1), std::vector<float>(more.begin(), more.begin() + 100));
}

// Σ (R − b)² − reward·(R − b)·log p − entropy·H, and who learns from which term.
TEST(ReinforceLoss, IsTheSumItSays) {
  const auto leaf = [](std::initializer_list<float> values) {
    Tensor t = Tensor::from(values, {2, 2});
    return t.set_requires_grad();
  };
  const Tensor log_prob = leaf({-1, -2, -3, -4}), entropy = leaf({0.5f, 1, 1.5f, 2});
  const Tensor b = leaf({1, 0, -1, 2}), R = leaf({3, 1, 1, 9});
  const Tensor counts = Tensor::from({1, 1, 1, 0}, {2, 2});
  const ReinforceConfig c{.reward = 0.5f, .entropy = 0.25f};
  const Tensor loss = reinforce({log_prob, entropy, counts}, R.detach(), b, c);
  // advantages 2, 1, 2
  EXPECT_FLOAT_EQ(loss.item(), (4 + 1 + 4) - 0.5f * (-2 - 2 - 6) - 0.25f * 3);
  loss.backward();
  EXPECT_EQ(b.grad().to_vector(), (std::vector<float>{-4, -2, -4, 0}));
  EXPECT_EQ(log_prob.grad().to_vector(), (std::vector<float>{-1, -0.5f, -1, 0}));
  EXPECT_EQ(entropy.grad().to_vector(), (std::vector<float>{-0.25f, -0.25f, -0.25f, 0}));
  EXPECT_FALSE(R.grad());
}

// ---- Unbiased, and the better the guess the quieter --------------------------------------------

// Two choices of three, the second's odds depending on the first: nine paths, all written down.
struct Game {
  Tensor first = Tensor::from({0.3f, -0.2f, 0.5f}, {1, 3});
  Tensor second = Tensor::from({0.1f, 0.9f, -0.4f, 0.7f, 0.2f, 0.0f, -0.5f, 0.4f, 0.8f}, {3, 3});
  float reward[3] = {2.0f, -1.0f, 0.5f};
  float later[3][3] = {{1, 4, -2}, {0, 3, 1}, {-1, 2, 5}};

  Game() {
    first.set_requires_grad();
    second.set_requires_grad();
  }
  Tensor log_p(int64_t a) const { return log_softmax(first).slice(1, a, a + 1); }  // [1,1]
  Tensor log_p(int64_t a, int64_t b) const {
    return log_softmax(second).slice(0, a, a + 1).slice(1, b, b + 1);
  }
  double p(int64_t a, int64_t b) const {
    return std::exp(static_cast<double>(log_p(a).item()) + static_cast<double>(log_p(a, b).item()));
  }
  double mean_later(int64_t a) const {
    double mean = 0;
    for (int64_t b = 0; b < 3; ++b) {
      mean += std::exp(static_cast<double>(log_p(a, b).item())) * later[a][b];
    }
    return mean;
  }
  double mean_return() const {
    double mean = 0;
    for (int64_t a = 0; a < 3; ++a) {
      mean += std::exp(static_cast<double>(log_p(a).item())) * (reward[a] + mean_later(a));
    }
    return mean;
  }

  std::vector<double> gradient(const Tensor& of) {
    const std::vector<Tensor> inputs = {first, second};
    std::vector<double> all;
    for (const Tensor& g : gradients(of, Tensor::full(of.shape(), 1.0f), inputs)) {
      for (const float x : g.to_vector()) all.push_back(static_cast<double>(x));
    }
    return all;
  }
  // −∇ E[R] with nothing drawn.
  std::vector<double> exact() {
    Tensor mean = Tensor::zeros({1, 1});
    for (int64_t a = 0; a < 3; ++a) {
      for (int64_t b = 0; b < 3; ++b) {
        mean = mean + exp(log_p(a) + log_p(a, b)) * (reward[a] + later[a][b]);
      }
    }
    return gradient(-mean.reshape({}));
  }
  // Of one path, by REINFORCE.
  std::vector<double> estimate(int64_t a, int64_t b, const Tensor& baseline) {
    const Tensor log_prob = concatenate({log_p(a), log_p(a, b)}, 0);  // [2,1]
    const Tensor R = returns(Tensor::from({reward[a], later[a][b]}, {2, 1}), 1.0f);
    const Tensor ones = Tensor::full({2, 1}, 1.0f);
    return gradient(
        reinforce({log_prob, ones, ones}, R, baseline, {.reward = 1.0f, .entropy = 0.0f}));
  }
};

struct Spread {
  std::vector<double> mean;
  double variance = 0;  // summed over all parameters
};
// baseline(a): the guesses [2,1] before each choice, where the first was a.
template <class Baseline>
Spread over_all_paths(Game& game, const Baseline& baseline) {
  Spread s{std::vector<double>(12, 0.0)};
  for (int64_t a = 0; a < 3; ++a) {
    for (int64_t b = 0; b < 3; ++b) {
      const std::vector<double> g = game.estimate(a, b, baseline(a));
      for (size_t i = 0; i < g.size(); ++i) {
        s.mean[i] += game.p(a, b) * g[i];
        s.variance += game.p(a, b) * g[i] * g[i];
      }
    }
  }
  for (const double m : s.mean) s.variance -= m * m;
  return s;
}

TEST(ReinforceLoss, ItsGradientIsOnAverageThatOfTheExpectation) {
  Game game;
  const std::vector<double> exact = game.exact();
  const auto guesses = [](float one, float two) {
    return [=](int64_t a) { return Tensor::from({one, two * static_cast<float>(a)}, {2, 1}); };
  };
  for (const auto& [one, two] :
       {std::pair(0.0f, 0.0f), std::pair(3.0f, -1.0f), std::pair(-20.0f, 30.0f)}) {
    const Spread s = over_all_paths(game, guesses(one, two));
    for (size_t i = 0; i < exact.size(); ++i) ASSERT_NEAR(s.mean[i], exact[i], 3e-5) << i;
  }
}

TEST(ReinforceLoss, AGoodBaselineLowersTheVariance) {
  Game game;
  const double none = over_all_paths(game, [](int64_t) { return Tensor::zeros({2, 1}); }).variance;
  const double good = over_all_paths(game, [&](int64_t a) {
                        return Tensor::from({static_cast<float>(game.mean_return()),
                                             static_cast<float>(game.mean_later(a))},
                                            {2, 1});
                      }).variance;
  const double bad = over_all_paths(game, [](int64_t) {
                       return Tensor::full({2, 1}, -5.0f);
                     }).variance;
  EXPECT_LT(good, 0.6 * none);
  EXPECT_GT(bad, none);
}

}  // namespace
}  // namespace fovea::models
