#include "fovea/glimpse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "fovea/runtime.h"
#include "models/tiny.h"
#include "tests/host.h"

namespace fovea::models {
namespace {

using tests::all_finite;
using tests::error_of;

GlimpseConfig small_glimpse(GlimpseModel model = GlimpseModel::recurrent) {
  GlimpseConfig c;
  c.model = model;
  c.height = 12;
  c.width = 14;
  c.classes = 3;
  c.sensor = {.size = 4, .scales = 2};
  c.glimpses = 3;
  c.parts = 9;
  c.hidden = 6;
  c.locator = 4;
  c.grid = 2;
  c.longest_source = 4;
  return c;
}

constexpr GlimpseModel kGlimpseModels[] = {GlimpseModel::recurrent, GlimpseModel::soft,
                                           GlimpseModel::random, GlimpseModel::dense,
                                           GlimpseModel::conv};

// Far from where training starts.
Glimpse glimpse_of(const GlimpseConfig& config, float spread = 0.5f) {
  Glimpse m = glimpse(config, 1);
  const NoGrad off;
  uint64_t seed = 0;
  for (const auto& [name, t] : m.weights.all()) {
    Tensor(t).copy_(Tensor::randn(t.shape(), ++seed * 1000) * spread);
  }
  return m;
}

// ---- The sensor --------------------------------------------------------------------------------

// Pixel by pixel, in double.
double seen_at(const std::vector<float>& image, int64_t Y, int64_t X, const Sensor& s, double px,
               double py, int64_t scale, int64_t row, int64_t column) {
  const int64_t each = int64_t{1} << scale, side = s.size * each;
  const auto corner = [&](double p, int64_t length) {
    return std::lround((p + 1) / 2 * static_cast<double>(length) - static_cast<double>(side) / 2);
  };
  double total = 0;
  for (int64_t dy = 0; dy < each; ++dy) {
    for (int64_t dx = 0; dx < each; ++dx) {
      const int64_t y = corner(py, Y) + row * each + dy, x = corner(px, X) + column * each + dx;
      if (y >= 0 && y < Y && x >= 0 && x < X)
        total += static_cast<double>(image[static_cast<size_t>(y * X + x)]);
    }
  }
  return total / static_cast<double>(each * each);
}

TEST(Sensor, IsTheMeanOfThePixelsThere) {
  const std::vector<float> xy = {0,     0,     1,    1,     -1,   -1,    0.31f, -0.77f,
                                 -0.9f, 0.44f, 0.5f, 0.05f, 3.0f, -2.5f, 0.2f,  0.93f};
  for (const Sensor s : {Sensor{4, 1}, Sensor{3, 3}, Sensor{8, 2}, Sensor{5, 4}}) {
    const int64_t B = 2, Y = 11, X = 17, N = 8;
    const Tensor images = Tensor::rand({B, Y, X}, 3), places = Tensor::from(xy, {N, 2});
    const std::vector<float> found = sense(s, images, places).to_vector();
    size_t at = 0;
    for (int64_t n = 0; n < N; ++n) {
      const std::vector<float> image = images.select(0, n % B).to_vector();
      for (int64_t scale = 0; scale < s.scales; ++scale) {
        for (int64_t row = 0; row < s.size; ++row) {
          for (int64_t column = 0; column < s.size; ++column) {
            EXPECT_NEAR(found[at++],
                        seen_at(image, Y, X, s, static_cast<double>(xy[static_cast<size_t>(2 * n)]),
                                static_cast<double>(xy[static_cast<size_t>(2 * n + 1)]), scale, row,
                                column),
                        1e-5);
          }
        }
      }
    }
    EXPECT_EQ(at, found.size());
  }
  EXPECT_NE(error_of([] {
              sense({}, Tensor::zeros({2, 4, 4}), Tensor::zeros({3, 2}));
            }).find("multiple of B"),
            std::string::npos);
}

// ---- Passes ------------------------------------------------------------------------------------

TEST(Glimpse, EveryModelAnswersAndLearns) {
  const Tensor images = Tensor::rand({4, 12, 14}, 1),
               classes = Tensor::from_ids(std::vector<int64_t>{0, 1, 2, 1}, {4});
  for (const GlimpseModel which : kGlimpseModels) {
    SCOPED_TRACE(name_of(which));
    EXPECT_EQ(glimpse_model(name_of(which)), which);
    for (const nn::Cell cell : {nn::Cell::rnn, nn::Cell::gru, nn::Cell::lstm}) {
      GlimpseConfig c = small_glimpse(which);
      c.cell = cell;
      const Glimpse m = glimpse_of(c);
      const int64_t T = glimpses(c) ? 3 : 1;
      const Tensor p = probabilities(m, images, 2, 5);
      EXPECT_EQ(p.shape(), (Shape{T, 4, 3}));
      for (const float total : sum(p, {2}).to_vector()) EXPECT_NEAR(total, 1, 1e-5);
      const GlimpseLoss l =
          loss(m, images, classes, {{}, Prize::likely, Rewarded::each, 2, 0.5f, 7});
      EXPECT_GT(l.nll, 0);
      l.loss.backward();
      for (const auto& [name, t] : m.weights.learned()) {
        ASSERT_TRUE(t.grad()) << name;
        EXPECT_TRUE(all_finite(t.grad())) << name;
        double size = 0;
        for (const float g : t.grad().to_vector()) size += std::abs(static_cast<double>(g));
        if (name.find("look.") != std::string::npos) continue;  // a softmax may move by nothing
        EXPECT_GT(size, 0) << name;
      }
      EXPECT_EQ(count_weights(c), m.weights.count());
    }
  }
}

TEST(Glimpse, ReadoutsNeedNotSumToOne) {
  GlimpseConfig c = small_glimpse(GlimpseModel::soft);
  const Tensor images = Tensor::rand({2, 12, 14}, 1);
  for (const char* weighting : {"softmax", "sigmoid"}) {
    c.weighting = weighting;
    const Glimpsed found = look_around(glimpse_of(c), images, {.keep = true});
    ASSERT_EQ(found.weights.shape(), (Shape{3, 2, 4}));
    bool one = true;
    for (const float total : sum(found.weights, {2}).to_vector()) {
      one = one && std::abs(total - 1) < 1e-4f;
    }
    EXPECT_EQ(one, c.weighting == "softmax");
  }
  c.weighting = "sample";
  EXPECT_NE(error_of([&] { check(c); }).find("recurrent"), std::string::npos);
}

TEST(Glimpse, CopiesDrawForThemselvesAndPlacesStayOnTheImage) {
  GlimpseConfig c = small_glimpse();
  c.sigma = 0.7f;
  const Glimpse m = glimpse_of(c);
  const Tensor images = Tensor::rand({2, 12, 14}, 1);
  const Glimpsed found =
      look_around(m, images, {.seed = 3, .copies = 50, .draw = true, .keep = true});
  EXPECT_EQ(found.places.shape(), (Shape{3, 100, 2}));
  EXPECT_EQ(found.seen.shape(), (Shape{3, 100, 32}));
  EXPECT_EQ(found.drawn.shape(), (Shape{2, 100, 2}));
  bool outside = false;
  for (const float p : found.drawn.to_vector()) outside = outside || std::abs(p) > 1;
  EXPECT_TRUE(outside);
  for (const float p : found.places.to_vector()) EXPECT_LE(std::abs(p), 1.0f);
  EXPECT_EQ(found.places.select(0, 0).to_vector(), std::vector<float>(200, 0.0f));
  const std::vector<float> second = found.places.select(0, 1).to_vector();
  EXPECT_NE(second[0], second[4]);  // two copies of the first image
  // Undrawn, all copies go one way; the same seed, the same way.
  const Glimpsed sure = look_around(m, images, {.copies = 2});
  const std::vector<float> aims = sure.places.select(0, 2).to_vector();
  EXPECT_EQ(aims[0], aims[4]);
  EXPECT_EQ(look_around(m, images, {.seed = 3, .copies = 50, .draw = true}).places.to_vector(),
            found.places.to_vector());
  // As told.
  const Tensor told = Tensor::rand({3, 2, 2}, 9);
  EXPECT_EQ(look_around(m, images, {.places = told}).places.to_vector(), told.to_vector());
  EXPECT_NE(error_of([&] {
              look_around(m, images, {.places = Tensor::zeros({3, 3, 2})});
            }).find("expected [3, 2, 2]"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              look_around(m, Tensor::zeros({2, 12, 12}));
            }).find("expected"),
            std::string::npos);
}

TEST(Glimpse, TheSameAtAnyNumberOfThreads) {
  GlimpseConfig c = small_glimpse();
  c.hidden = 64;
  const Glimpse m = glimpse_of(c, 0.2f);
  const Tensor images = Tensor::rand({64, 12, 14}, 1);
  const Tensor classes = Tensor::from_ids(std::vector<int64_t>(64, 1), {64});
  const auto result = [&](int threads) {
    set_threads(threads);
    for (const auto& [name, t] : m.weights.learned()) Tensor(t).zero_grad();
    const GlimpseLoss l = loss(m, images, classes, {{}, Prize::likely, Rewarded::each, 2, 0.5f, 7});
    l.loss.backward();
    return std::pair(l.loss.item(), m.see.weight.grad().to_vector());
  };
  const auto one = result(1), two = result(2);
  set_threads(1);
  EXPECT_EQ(one, two);
}

// ---- Gradients ---------------------------------------------------------------------------------

// Slopes of the loss by central differences in the weights that `of` names, at fixed places.
void expect_slopes(const Glimpse& m, const std::function<double()>& value, const Tensor& l,
                   const std::vector<std::string>& of) {
  l.backward();
  constexpr float kStep = 2e-3f;
  for (const std::string& name : of) {
    Tensor w = m.weights.learned().at(name);
    const std::vector<float> gradient = w.grad().to_vector();
    const int64_t some = std::min<int64_t>(w.numel(), 12);
    for (int64_t n = 0; n < some; ++n) {
      const NoGrad off;
      const int64_t i = n * (w.numel() / some);
      const auto put = [&](float x) { test::edit<float>(w, [&](float* at) { at[i] = x; }); };
      const float before = w.to_vector()[static_cast<size_t>(i)];
      const float g = gradient[static_cast<size_t>(i)];
      put(before + kStep);
      const double up = value();
      put(before - kStep);
      const double slope = (up - value()) / (2 * static_cast<double>(kStep));
      put(before);
      EXPECT_NEAR(static_cast<double>(g), slope, 2e-3 + 0.01 * std::abs(slope)) << name << " " << i;
    }
  }
}

TEST(Glimpse, GradientsAreSlopes) {
  const Tensor images = Tensor::rand({3, 12, 14}, 1),
               classes = Tensor::from_ids(std::vector<int64_t>{0, 1, 2}, {3});
  for (const GlimpseModel which : kGlimpseModels) {
    SCOPED_TRACE(name_of(which));
    GlimpseConfig c = small_glimpse(which);
    c.cell = nn::Cell::gru;
    const Glimpse m = glimpse_of(c, 0.4f);
    GlimpsePass pass;
    if (which == GlimpseModel::recurrent) pass.places = Tensor::rand({3, 3, 2}, 4) * 2.0f - 1.0f;
    GlimpseLossConfig how;
    how.early = 0.5f;
    how.reward = 0;
    // What the policy and its baseline read has no gradient: slopes are those of −log p(class).
    const auto loss_now = [&] {
      Glimpsed found = look_around(m, images, pass);
      found.log_prob = {};
      return loss(found, classes, how).loss;
    };
    std::vector<std::string> names;
    for (const auto& [name, t] : m.weights.learned()) {
      const bool of_policy = name.starts_with("locate") || name.starts_with("aim");
      if (!of_policy && !name.starts_with("baseline")) names.push_back(name);
    }
    expect_slopes(
        m, [&] { return static_cast<double>(loss_now().item()); }, loss_now(), names);
    if (which != GlimpseModel::recurrent) continue;
    const auto whole = [&] { return loss(look_around(m, images, pass), classes, how).loss; };
    expect_slopes(m, [&] { return static_cast<double>(whole().item()); }, whole(),
                  {"baseline.weight", "baseline.bias"});
  }
}

TEST(Glimpse, LogProbabilityIsTheDensity) {
  GlimpseConfig c = small_glimpse();
  c.sigma = 0.3f;
  const Glimpse m = glimpse_of(c);
  const Tensor images = Tensor::rand({2, 12, 14}, 1), places = Tensor::rand({3, 2, 2}, 4);
  const Glimpsed found = look_around(m, images, {.places = places});
  ASSERT_EQ(found.log_prob.shape(), (Shape{2, 2}));
  expect_slopes(
      m,
      [&] {
        return static_cast<double>(sum(look_around(m, images, {.places = places}).log_prob).item());
      },
      sum(found.log_prob), {"locate.weight", "locate.bias", "aim.weight", "aim.bias"});
  // The density of what is drawn is on average its entropy, −log(2πeσ²).
  const Glimpsed drawn = look_around(m, images, {.seed = 2, .copies = 5000, .draw = true});
  EXPECT_NEAR(mean(drawn.log_prob).item(), -std::log(2 * M_PI * M_E * 0.09), 0.03);
}

// A pass that says how far it draws draws as a model of that deviation does, and learns as one.
TEST(Glimpse, APassMayDrawAsFarAsItSays) {
  GlimpseConfig c = small_glimpse();
  const Glimpse m = glimpse_of(c);
  c.sigma = 0.35f;
  Glimpse wide = glimpse_of(c);
  const Tensor images = Tensor::rand({2, 12, 14}, 1),
               classes = Tensor::from_ids(std::vector<int64_t>{1, 2}, {2});
  GlimpsePass pass{.seed = 3, .copies = 20, .draw = true};
  const Glimpsed near = look_around(m, images, pass), expected = look_around(wide, images, pass);
  pass.sigma = 0.35f;
  const Glimpsed found = look_around(m, images, pass);
  EXPECT_EQ(found.places.to_vector(), expected.places.to_vector());
  EXPECT_EQ(found.log_prob.to_vector(), expected.log_prob.to_vector());
  EXPECT_NE(found.places.to_vector(), near.places.to_vector());
  GlimpseLossConfig how;
  how.copies = 20;
  how.sigma = 0.35f;
  const double told = static_cast<double>(loss(m, images, classes, how).loss.item());
  how.sigma = 0;
  EXPECT_EQ(told, static_cast<double>(loss(wide, images, classes, how).loss.item()));
  EXPECT_NE(told, static_cast<double>(loss(m, images, classes, how).loss.item()));
  pass.sigma = -1;
  EXPECT_NE(error_of([&] { look_around(m, images, pass); }).find("sigma must be in [0, 10]"),
            std::string::npos);
}

// ---- REINFORCE ---------------------------------------------------------------------------------

// Σ (R − b)² with b = 0 says what the returns are.
TEST(Glimpse, ChoicesAreRewardedForTheLastAnswerOrForEach) {
  Glimpsed found;
  // Answers 0 1 1 | 0 0 1 of two images over three glimpses; both are of class 1.
  found.logits = Tensor::from({1, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0, 1}, {3, 2, 2});
  found.log_prob = found.baseline = Tensor::zeros({2, 2});
  const Tensor classes = Tensor::from_ids(std::vector<int64_t>{1, 1}, {2});
  GlimpseLossConfig how;
  how.discount = 0.5f;
  const auto terms = [&] {
    Glimpsed plain = found;
    plain.log_prob = {};
    return loss(found, classes, how).loss.item() - loss(plain, classes, how).loss.item();
  };
  EXPECT_NEAR(terms(), (1 + 1 + 1 + 1) / 2.0, 1e-5);
  how.rewarded = Rewarded::each;  // 1, 1 and (0 + ½)/(1 + ½), 1
  EXPECT_NEAR(terms(), (1 + 1 + 1.0 / 9 + 1) / 2.0, 1e-5);
  how.rewarded = Rewarded::last;
  how.prize = Prize::likely;
  const double p = 1 / (1 + std::exp(-1.0));
  EXPECT_NEAR(terms(), 4 * p * p / 2.0, 1e-5);
}

// Two glimpses: J(β) = E[right] for the bias β of where the second is aimed, by summing over a fine
// grid of draws, and its slope.
struct Policy {
  Glimpse m;
  Tensor image, wanted;

  double right_at(const Tensor& places) const {  // [2,N,2] → mean
    const NoGrad off;
    const Tensor logits =
        look_around(m, image, {.copies = places.size(1), .places = places}).logits;
    const std::vector<int64_t> said = argmax(logits.select(0, 1), 1).to_ids();
    double right = 0;
    for (const int64_t k : said) right += k == wanted.to_ids()[0];
    return right / static_cast<double>(said.size());
  }

  std::array<float, 2> aim() const {
    const NoGrad off;
    const std::vector<float> p = look_around(m, image).drawn.to_vector();
    return {p[0], p[1]};
  }

  // The exact dJ/dμ: Σ over a grid of z of φ(z)·right(μ + σz)·z/σ.
  std::array<double, 2> exact() const {
    constexpr int kSide = 161;
    constexpr double kReach = 4.5;
    const auto mu = aim();
    const float sigma = m.config.sigma;
    std::vector<float> places(2 * kSide * kSide, 0.0f);  // the first glimpses
    std::vector<double> z;
    for (int i = 0; i < kSide; ++i) z.push_back(kReach * (2.0 * i / (kSide - 1) - 1));
    for (int i = 0; i < kSide; ++i) {
      for (int j = 0; j < kSide; ++j) {
        places.push_back(
            std::clamp(mu[0] + sigma * static_cast<float>(z[static_cast<size_t>(i)]), -1.0f, 1.0f));
        places.push_back(
            std::clamp(mu[1] + sigma * static_cast<float>(z[static_cast<size_t>(j)]), -1.0f, 1.0f));
      }
    }
    const NoGrad off;
    const Tensor at = Tensor::from(places, {2, kSide * kSide, 2});
    const Tensor logits = look_around(m, image, {.copies = kSide * kSide, .places = at}).logits;
    const std::vector<int64_t> said = argmax(logits.select(0, 1), 1).to_ids();
    std::array<double, 2> slope{};
    double total = 0, some = 0;
    for (int i = 0; i < kSide; ++i) {
      for (int j = 0; j < kSide; ++j) {
        const double zi = z[static_cast<size_t>(i)], zj = z[static_cast<size_t>(j)];
        const double weight = std::exp(-0.5 * (zi * zi + zj * zj));
        const bool right = said[static_cast<size_t>(i * kSide + j)] == wanted.to_ids()[0];
        total += weight;
        some += weight * right;
        slope[0] += weight * right * zi / static_cast<double>(sigma);
        slope[1] += weight * right * zj / static_cast<double>(sigma);
      }
    }
    EXPECT_GT(some / total, 0.1);
    EXPECT_LT(some / total, 0.9);
    return {slope[0] / total, slope[1] / total};
  }
};

Policy policy() {
  GlimpseConfig c = small_glimpse();
  c.glimpses = 2;
  c.sigma = 0.25f;
  c.sensor = {.size = 6, .scales = 1};
  return {glimpse_of(c, 0.7f), Tensor::rand({1, 12, 14}, 11),
          Tensor::from_ids(std::vector<int64_t>{0}, {1})};
}

// The gradient with respect to the aim's bias of one draw of the loss, over tanh′, which is dJ/dμ
// with its sign; of each row by itself.
struct Estimates {
  std::array<double, 2> mean{}, variance{};
};
Estimates estimates(const Policy& p, float guess, int64_t rows) {
  const Glimpsed found = look_around(p.m, p.image, {.seed = 5, .copies = rows, .draw = true});
  const std::vector<int64_t> said = argmax(found.logits.select(0, 1).detach(), 1).to_ids();
  const auto mu = p.aim();
  const std::vector<float> drawn = found.drawn.to_vector();
  Estimates e;
  std::array<double, 2> squares{};
  for (size_t n = 0; n < said.size(); ++n) {
    const double advantage = (said[n] == p.wanted.to_ids()[0]) - static_cast<double>(guess);
    for (size_t d = 0; d < 2; ++d) {
      const double sigma = static_cast<double>(p.m.config.sigma);
      const double g = advantage * static_cast<double>(drawn[2 * n + d] - mu[d]) / (sigma * sigma);
      e.mean[d] += g / static_cast<double>(rows);
      squares[d] += g * g / static_cast<double>(rows);
    }
  }
  for (size_t d = 0; d < 2; ++d) e.variance[d] = squares[d] - e.mean[d] * e.mean[d];
  return e;
}

TEST(Glimpse, ThePolicyGradientIsOnAverageTheExactOne) {
  Policy p = policy();
  // A class that is right somewhere around, and not everywhere.
  for (int64_t k = 0; k < 3; ++k) {
    p.wanted = Tensor::from_ids(std::vector<int64_t>{k}, {1});
    const auto mu = p.aim();
    const Tensor noise = Tensor::randn({400, 2}, 3) * p.m.config.sigma;
    const Tensor second = clamp(noise + Tensor::from({mu[0], mu[1]}, {1, 2}), -1, 1);
    const double right = p.right_at(stack({Tensor::zeros({400, 2}), second}, 0));
    if (right > 0.15 && right < 0.85) break;
  }
  const std::array<double, 2> exact = p.exact();
  EXPECT_GT(std::abs(exact[0]) + std::abs(exact[1]), 0.1);
  constexpr int64_t kRows = 60000;
  // What loss() puts on the tape, as a gradient of the bias of the aim.
  GlimpseLossConfig how;
  how.reward = 1;
  how.copies = kRows;
  how.seed = 5;
  {
    const NoGrad off;
    Tensor(p.m.baseline.weight).fill_(0.0f);
    Tensor(p.m.baseline.bias).fill_(0.4f);
  }
  loss(p.m, p.image, p.wanted, how).loss.backward();
  const std::vector<float> bias = p.m.aim.bias.grad().to_vector();
  const auto mu = p.aim();
  const Estimates with = estimates(p, 0.4f, kRows), without = estimates(p, 0.0f, kRows);
  for (size_t d = 0; d < 2; ++d) {
    const double slope = 1 - static_cast<double>(mu[d] * mu[d]);  // of the hyperbolic tangent
    const double found = -static_cast<double>(bias[d]) / slope;
    EXPECT_NEAR(found, with.mean[d], 2e-3 + 0.01 * std::abs(with.mean[d]));
    EXPECT_NEAR(found, exact[d], 5 * std::sqrt(with.variance[d] / kRows) + 0.02);
    EXPECT_NEAR(without.mean[d], exact[d], 5 * std::sqrt(without.variance[d] / kRows) + 0.02);
  }
  EXPECT_LT(with.variance[0] + with.variance[1], 0.9 * (without.variance[0] + without.variance[1]));
}

}  // namespace
}  // namespace fovea::models
