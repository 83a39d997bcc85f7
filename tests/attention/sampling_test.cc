#include <algorithm>
#include <cmath>

#include "attention/expect.h"
#include "fovea/ops.h"

// Hard attention: draws follow the softmax probabilities, and what is learned from them is the
// gradient it should be.
namespace fovea::tests {
namespace {

// Σ (observed − expected)²/expected. Its mean is the degrees of freedom k, its variance 2k.
double chi_square(const std::vector<double>& observed, const std::vector<double>& expected) {
  double sum = 0;
  for (size_t j = 0; j < observed.size(); ++j)
    sum += (observed[j] - expected[j]) * (observed[j] - expected[j]) / expected[j];
  return sum;
}

// One query many times over: each of its rows is a draw of its own.
Call same_query(const std::string& score, int64_t rows, int64_t Lk) {
  const Sizes n{.B = 1, .H = 1, .Hk = 1, .Lq = 1, .Lk = Lk, .Dq = 6, .Dk = 6, .Dv = 3};
  Call x = call(n, {score_for(score, n)});
  x.q = x.q.expand({1, 1, rows, 6});
  return x;
}

TEST(Sample, FollowsTheSoftmaxProbabilities) {
  constexpr int64_t kRows = 4000, kSeeds = 5;
  for (const char* score : {"scaled_dot", "additive_keras"}) {
    for (const char* weighting : {"sample", "gumbel"}) {
      Call x = same_query(score, kRows, 12);
      const std::vector<float> p =
          attend(x.q.slice(2, 0, 1), x.k, x.v, {x.attention.score}).weights().to_vector();
      on_every_isa([&](const std::string&) {
        std::vector<double> observed(12), expected(12);
        for (uint64_t seed = 0; seed < kSeeds; ++seed) {
          x.attention.weighting = fovea::weighting(weighting);
          x.attention.weighting.seed = seed * 77 + 1;
          for (const int64_t j : attend(x.q, x.k, x.v, x.attention).chosen().to_ids())
            ++observed[j];
        }
        for (size_t j = 0; j < 12; ++j) expected[j] = kRows * kSeeds * static_cast<double>(p[j]);
        // 11 degrees of freedom: 31.3 is passed once in 1,000 times; the draws are fixed.
        EXPECT_LT(chi_square(observed, expected), 31.3) << score << " " << weighting;
      });
    }
  }
}

// Draws of neighbouring rows are independent: pairs follow the product of the probabilities.
TEST(Sample, DrawsRowsSeedsHeadsAndEntriesIndependently) {
  const int64_t rows = 4096;
  Call x = same_query("scaled_dot", rows, 4);
  const std::vector<float> p = attend(x.q.slice(2, 0, 1), x.k, x.v).weights().to_vector();
  const auto draw = [&](uint64_t seed, int64_t head) {
    Call y = x;
    y.q = x.q.expand({2, 2, rows, 6});
    y.k = x.k.expand({2, 2, 4, 6});
    y.v = x.v.expand({2, 2, 4, 3});
    y.attention.weighting = weightings::sample(seed);
    const std::vector<int64_t> all = attend(y.q, y.k, y.v, y.attention).chosen().to_ids();
    return std::vector<int64_t>(all.begin() + head * rows, all.begin() + (head + 1) * rows);
  };
  const auto expect_independent = [&](const std::vector<int64_t>& a, const std::vector<int64_t>& b,
                                      const char* what) {
    std::vector<double> observed(16), expected(16);
    for (size_t i = 0; i < a.size(); ++i) ++observed[a[i] * 4 + b[i]];
    for (size_t j = 0; j < 16; ++j)
      expected[j] = static_cast<double>(a.size()) * p[j / 4] * p[j % 4];
    EXPECT_LT(chi_square(observed, expected), 37.7) << what;  // 15 degrees of freedom, 1 in 1,000
  };
  const std::vector<int64_t> first = draw(1, 0);
  std::vector<int64_t> next(first.begin() + 1, first.end());
  next.push_back(first[0]);
  expect_independent(first, next, "rows");
  expect_independent(first, draw(2, 0), "seeds");
  expect_independent(first, draw(1, 1), "heads");
  expect_independent(first, draw(1, 2), "batch entries");
}

TEST(Argmax, TakesTheFirstOfEquals) {
  const int64_t Lk = 600;  // ties within a vector, a panel and across blocks
  for (const int64_t winner : {0, 1, 7, 31, 32, 255, 256, 500}) {
    std::vector<float> k(Lk, 0.5f);
    for (int64_t j = winner; j < Lk; j += winner % 5 + 1) k[j] = 2.0f;
    const Tensor keys = Tensor::from(k, {1, 1, Lk, 1});
    const Tensor q = Tensor::full({1, 1, 9, 1}, 1.0f);
    on_every_isa([&](const std::string&) {
      for (const Score& score : {scores::dot(), scores::additive_keras(Tensor::full({1}, 1.0f))}) {
        const Attended a =
            attend(q, keys, keys, {.score = score, .weighting = weightings::argmax()});
        EXPECT_EQ(a.chosen().to_ids(), std::vector<int64_t>(9, winner));
      }
    });
  }
}

// A shorter source is a longer one cut by its length: the draw depends on (seed, b, h, i, j) alone.
TEST(Sample, DoesNotDependOnTiling) {
  const Sizes n{.B = 2, .H = 2, .Hk = 2, .Lq = 70, .Lk = 90, .Dq = 8, .Dk = 8, .Dv = 8};
  const Tensor lengths = Tensor::from_ids(std::vector<int64_t>{90, 90}, {2});
  for (const char* score : {"scaled_dot", "additive_keras"}) {
    for (const char* weighting : {"sample", "gumbel", "argmax", "softmax"}) {
      Call x = call(n, {score_for(score, n), {}, fovea::weighting(weighting)});
      x.attention.weighting.seed = 9;
      x.attention.weighting.dropout = 0.4f;
      Call longer = x;
      longer.k = pad(x.k, 2, 0, 500, 3.0f);
      longer.v = pad(x.v, 2, 0, 500, 3.0f);
      longer.attention.mask = masks::lengths(lengths);
      Call rows = x;  // the same queries as the first rows of more
      rows.q = pad(x.q, 2, 0, 33);
      const Attended a = attend(x.q, x.k, x.v, x.attention);
      const Attended b = attend(longer.q, longer.k, longer.v, longer.attention);
      const Attended c = attend(rows.q, rows.k, rows.v, rows.attention);
      const Tensor w = a.weights();
      expect_near(b.weights().slice(3, 0, 90).to_vector(), w.to_vector(), {1e-6, 1e-6},
                  "more keys");
      expect_near(c.weights().slice(2, 0, 70).to_vector(), w.to_vector(), {1e-6, 1e-6},
                  "more rows");
      if (std::string(weighting) == "softmax") continue;
      EXPECT_EQ(b.chosen().to_ids(), a.chosen().to_ids());
      EXPECT_EQ(c.chosen().slice(2, 0, 70).to_ids(), a.chosen().to_ids());
    }
  }
}

// ---- learning ----------------------------------------------------------------------------------

// E[reward] = Σ_j p_j·reward_j, by enumeration; its gradient in q.
std::vector<float> exact_gradient(const Call& x, const Tensor& rewards) {
  Tensor q = x.q.slice(2, 0, 1).clone();
  q.set_requires_grad();
  const Attended a = attend(q, x.k, x.v, {x.attention.score});
  sum(a.weights() * rewards).backward();
  return q.grad().to_vector();
}

struct Estimate {
  std::vector<double> mean, error;  // of the mean
  double variance = 0;              // of one draw, summed over the coordinates
};

// Each row is a draw; its own dq is its estimate (reward − baseline)·∇log p(chosen).
Estimate reinforce(const Call& c, const Tensor& rewards, float baseline) {
  Call x = c;
  x.q = x.q.contiguous();
  x.q.set_requires_grad();
  const Attended a = attend(x.q, x.k, x.v, x.attention);
  const Tensor reward = embedding(rewards.reshape({-1, 1}), a.chosen()).squeeze(3) - baseline;
  sum(reward.detach() * a.log_prob()).backward();
  const std::vector<float> g = x.q.grad().to_vector();
  const int64_t D = x.q.size(3), rows = x.q.size(2);
  Estimate e{std::vector<double>(D), std::vector<double>(D)};
  std::vector<double> squares(D);
  for (int64_t i = 0; i < rows * D; ++i) {
    e.mean[i % D] += g[i] / static_cast<double>(rows);
    squares[i % D] += static_cast<double>(g[i]) * g[i] / static_cast<double>(rows);
  }
  for (int64_t d = 0; d < D; ++d) {
    const double variance = squares[d] - e.mean[d] * e.mean[d];
    e.variance += variance;
    e.error[d] = std::sqrt(variance / static_cast<double>(rows));
  }
  return e;
}

TEST(Reinforce, HasTheExactGradientForItsMeanAndABaselineLowersItsVariance) {
  const int64_t rows = reduced() ? 4'000 : 20'000;
  for (const char* score : {"scaled_dot", "additive_keras"}) {
    Call x = same_query(score, rows, 9);
    x.attention.weighting = weightings::sample(12);
    const Tensor rewards = Tensor::rand({9}, 6) + 2.0f;
    const std::vector<float> exact = exact_gradient(x, rewards);
    const Estimate plain = reinforce(x, rewards, 0.0f), better = reinforce(x, rewards, 2.5f);
    for (const Estimate& e : {plain, better})
      for (size_t d = 0; d < exact.size(); ++d)
        EXPECT_LE(std::abs(e.mean[d] - exact[d]), 4 * e.error[d] + 1e-6) << score << " " << d;
    EXPECT_LT(better.variance, plain.variance / 4);
    const std::string name = std::string(score).substr(0, 4);
    RecordProperty(name + "_variance", std::to_string(plain.variance));
    RecordProperty(name + "_variance_with_baseline", std::to_string(better.variance));
  }
}

// Forward the draw, backward softmax(s + g): the noise as a bias gives the same gradient.
TEST(Gumbel, IsStraightThroughTheNoisySoftmax) {
  const Sizes n{.B = 1, .H = 2, .Hk = 2, .Lq = 9, .Lk = 40, .Dq = 8, .Dk = 8, .Dv = 8};
  for (const char* score : {"scaled_dot", "additive_keras"}) {
    for (const float temperature : {1.0f, 0.5f}) {
      Call x = call(n, {score_for(score, n), masks::causal(), weightings::gumbel(6, temperature)});
      std::vector<float> noise(n.H * n.Lq * n.Lk);
      for (int64_t row = 0; row < n.H * n.Lq; ++row) {
        const RandomKey key = random_key(6, Purpose::gumbel, 0, row / n.Lq, row % n.Lq);
        for (int64_t j = 0; j < n.Lk; ++j)  // bias is divided by the temperature, noise is not
          noise[row * n.Lk + j] =
              temperature * static_cast<float>(-std::log(-std::log1p(-unit_open(bits32(key, j)))));
      }
      Call y = x;
      y.attention.weighting = weightings::softmax(temperature);
      y.attention.score.bias = Bias{Tensor::from(noise, {n.H, n.Lq, n.Lk}), false};
      const Results hard = results(x), soft = results(y);
      for (const char* name : {"dq of context", "dk of context", "dq of weights", "dk of weights"})
        expect_near(hard.at(name), soft.at(name), {2e-5, 1e-4}, std::string(score) + " " + name);
      // dv is the forward's: through the one-hot weights.
      const Attended a = attend(x.q, x.k, x.v, x.attention);
      const Tensor dv = matmul(a.weights().transpose(2, 3), Tensor::randn({1, 2, n.Lq, 8}, 11));
      expect_near(hard.at("dv of context"), dv.to_vector(), {1e-5, 1e-5}, "dv");
    }
  }
}

// The weights of a plain draw have no gradient in the scores; its values do.
TEST(Sample, LearnsThroughItsProbabilityAlone) {
  const Sizes n{.B = 1, .H = 2, .Hk = 2, .Lq = 9, .Lk = 40, .Dq = 8, .Dk = 8, .Dv = 8};
  for (const Weighting& weighting : {weightings::sample(3), weightings::argmax()}) {
    const Results r = results(call(n, {.weighting = weighting}));
    for (const char* name : {"dq of context", "dk of context", "dq of weights", "dk of weights"})
      for (const float y : r.at(name)) ASSERT_EQ(y, 0.0f) << name;
    const auto some = [&](const char* name) {
      return std::any_of(r.at(name).begin(), r.at(name).end(), [](float y) { return y != 0.0f; });
    };
    EXPECT_TRUE(some("dv of context"));
    EXPECT_TRUE(some("dq of log_prob"));
    EXPECT_TRUE(some("dq of entropy"));
  }
}

// H = −Σ p log p written out with tensors.
TEST(Entropy, AsABonusHasTheGradientOfItsFormula) {
  const Sizes n{.B = 2, .H = 2, .Hk = 2, .Lq = 9, .Lk = 40, .Dq = 8, .Dk = 8, .Dv = 8};
  for (const std::string& score : families()) {
    for (const Weighting& weighting : {weightings::sample(3), weightings::softmax(0.7f)}) {
      Call x = call(n, {score_for(score, n), masks::causal(), weighting});
      const Results found = results(x);
      x.attention.weighting = weightings::softmax(weighting.temperature);
      const Leaves leaves = make_leaves(x);
      const Tensor p = attend(x.q, x.k, x.v, x.attention).weights();
      const Tensor h = sum(p * log(maximum(p, Tensor::scalar(1e-30f))), {3}) * -1.0f;
      Results expected{{"entropy", h.to_vector()}};
      add_gradients(h, Tensor::randn(h.shape(), 11), "entropy", leaves, expected);
      expect_near(found, expected, {2e-5, 1e-5}, {3e-5, 1e-4}, score);
    }
  }
}

}  // namespace
}  // namespace fovea::tests
