#include "attention/reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "attention/check.h"
#include "attention/generate.h"
#include "fovea/attention.h"

namespace fovea {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr Sizes kSmall{.B = 2, .H = 2, .Hk = 1, .Lq = 3, .Lk = 4, .Dq = 3, .Dk = 3, .Dv = 2};

ReferenceInputs inputs(const Sizes& n, Attention attention, uint64_t seed = 1) {
  const generate::Qkv x = generate::qkv(n, seed);
  return {.q = x.q, .k = x.k, .v = x.v, .attention = std::move(attention), .n = n, .weights = true};
}

ReferenceUpstream random_upstream(const Sizes& n, bool hard) {
  const int64_t rows = n.B * n.H * n.Lq;
  ReferenceUpstream up{.context = generate::normals(rows * n.Dv, 11),
                       .weights = generate::normals(rows * n.Lk, 12),
                       .log_sum_exp = generate::normals(rows, 13),
                       .entropy = generate::normals(rows, 14)};
  if (hard) up.log_prob = generate::normals(rows, 15);
  return up;
}

// Σ upstream·output; a row without keys, whose log-sum-exp is −inf, counts for nothing.
double loss(const ReferenceOutput& out, const ReferenceUpstream& up) {
  const auto product = [](const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
      if (a[i] != -kInfinity) sum += a[i] * b[i];
    return sum;
  };
  return product(out.context, up.context) + product(out.weights, up.weights) +
         product(out.log_sum_exp, up.log_sum_exp) + product(out.entropy, up.entropy) +
         product(out.log_prob, up.log_prob);
}

// Every gradient against central differences with step 1e-6.
void expect_gradients(const ReferenceInputs& in) {
  ReferenceValues<double> x = reference_values(in);
  const ReferenceUpstream up = random_upstream(in.n, def_of(in.attention.weighting).hard);
  const ReferenceGradients gradients = reference_backward(in, x, up);
  constexpr double kStep = 1e-6;
  each_value(x, [&](const std::string& name, ScalarParameter<double>& parameter) {
    ASSERT_TRUE(gradients.contains(name)) << name;
    ASSERT_EQ(gradients.at(name).size(), parameter.data.size()) << name;
    for (size_t e = 0; e < parameter.data.size(); ++e) {
      const double here = parameter.data[e];
      parameter.data[e] = here + kStep;
      const double above = loss(reference_forward(in, x), up);
      parameter.data[e] = here - kStep;
      const double below = loss(reference_forward(in, x), up);
      parameter.data[e] = here;
      const double expected = (above - below) / (2 * kStep);
      EXPECT_NEAR(gradients.at(name)[e], expected, 1e-6 * std::max(1.0, std::abs(expected)))
          << "d" << name << "[" << e << "]";
    }
  });
}

// Each mask alone, and together with others.
std::vector<std::pair<std::string, Mask>> all_masks(const Sizes& n) {
  std::vector<std::pair<std::string, Mask>> masks;
  for (const MaskDef* def : mask_table()) masks.emplace_back(def->name, generate::mask(*def, n, 5));
  const Mask window = masks::window(1), causal = masks::causal();
  const Tensor lengths = Tensor::from_ids(std::vector<int64_t>{3, 0}, {2});
  const Tensor w_p = generate::normal({5, n.Dq}, 21), u_p = generate::normal({5}, 22);
  masks.emplace_back("causal+window", causal & window);
  masks.emplace_back("window:0,2", masks::window(0, 2));
  masks.emplace_back("lengths+local_p", masks::lengths(lengths) & masks::local_p(2, w_p, u_p));
  masks.emplace_back("local_p renormalised", masks::local_p(3, w_p, u_p, true));
  masks.emplace_back("f32 matrix", masks::matrix(generate::normal({n.Lq, n.Lk}, 23)));
  return masks;
}

// A copy of softmax(s + g) is what a straight-through draw differentiates: tested on its own.
bool differentiable(const WeightingDef& def) { return def.kind != WeightingKind::gumbel; }

class EveryScore : public testing::TestWithParam<const ScoreDef*> {};
INSTANTIATE_TEST_SUITE_P(Reference, EveryScore,
                         testing::ValuesIn(score_table().begin(), score_table().end()),
                         generate::kByName);

TEST_P(EveryScore, HasTheGradientOfItsDifferencesUnderEveryMaskAndWeighting) {
  Sizes n = kSmall;
  if (!GetParam()->equal_widths) n.Dk = 2;
  for (const auto& [mask_name, mask] : all_masks(n)) {
    for (const WeightingDef* weighting : weighting_table()) {
      if (!differentiable(*weighting)) continue;
      SCOPED_TRACE(mask_name + ", " + weighting->name);
      expect_gradients(inputs(n, {.score = generate::score(*GetParam(), n, 3),
                                  .mask = mask,
                                  .weighting = {.def = weighting,
                                                .numbers = generate::numbers(weighting),
                                                .temperature = 0.7f,
                                                .seed = 4}}));
    }
  }
}

TEST_P(EveryScore, HasTheGradientOfItsDifferencesWithBiasScaleAndDropout) {
  Score score = generate::score(*GetParam(), kSmall, 3);
  score.scale = 0.6f;
  const Weighting weighting{.dropout = 0.4f, .seed = 9};
  for (const Shape& shape : {Shape{4}, Shape{3, 1}, Shape{2, 3, 4}, Shape{2, 1, 1, 4}}) {
    SCOPED_TRACE(to_string(shape));
    score.bias = Bias{.table = generate::normal(shape, 31)};
    expect_gradients(inputs(kSmall, {.score = score, .weighting = weighting}));
    score.softcap = 0.8f;
    expect_gradients(inputs(kSmall, {.score = score, .weighting = weighting}));
    score.softcap = {};
  }
  for (const Shape& shape : {Shape{6}, Shape{2, 6}, Shape{2, 2, 6}}) {
    SCOPED_TRACE("relative " + to_string(shape));
    score.bias = Bias{.table = generate::normal(shape, 32), .relative = true};
    expect_gradients(inputs(kSmall, {.score = score, .mask = masks::causal()}));
  }
}

TEST_P(EveryScore, HasTheGradientOfItsDifferencesWithASink) {
  for (const auto& [mask_name, mask] : all_masks(kSmall)) {
    SCOPED_TRACE(mask_name);
    expect_gradients(
        inputs(kSmall, {.score = generate::score(*GetParam(), kSmall, 3),
                        .mask = mask,
                        .weighting = weightings::softmax(0.7f, Tensor::from({0.3f, -0.8f}, {2}))}));
  }
}

TEST_P(EveryScore, FollowsAPermutationOfTheQueries) {
  ReferenceInputs in = inputs(kSmall, {.score = generate::score(*GetParam(), kSmall, 3)});
  const ReferenceOutput before = reference_forward(in);
  const int64_t order[] = {2, 0, 1};
  std::vector<float> q(in.q.numel());
  const std::vector<float> old = in.q.to_vector();
  for (int64_t r = 0; r < kSmall.B * kSmall.H * kSmall.Lq; ++r)
    for (int64_t d = 0; d < kSmall.Dq; ++d) q[r * 3 + d] = old[(r / 3 * 3 + order[r % 3]) * 3 + d];
  in.q = Tensor::from(q, in.q.shape());
  const ReferenceOutput after = reference_forward(in);
  for (int64_t r = 0; r < kSmall.B * kSmall.H * kSmall.Lq; ++r)
    for (int64_t d = 0; d < kSmall.Dv; ++d)
      EXPECT_EQ(after.context[r * 2 + d], before.context[(r / 3 * 3 + order[r % 3]) * 2 + d]);
}

TEST_P(EveryScore, GivesAQueryWithoutKeysNothingAndNoGradient) {
  const Tensor none =
      Tensor::from_bools(std::vector<uint8_t>{1, 1, 0, 1, 0, 0, 0, 0, 1, 1, 1, 1}, {3, 4});
  for (const WeightingDef* weighting : weighting_table()) {
    SCOPED_TRACE(weighting->name);
    const ReferenceInputs in =
        inputs(kSmall, {.score = generate::score(*GetParam(), kSmall, 3),
                        .mask = masks::matrix(none),
                        .weighting = {.def = weighting, .numbers = generate::numbers(weighting)}});
    const ReferenceOutput out = reference_forward(in);
    const ReferenceGradients d = reference_backward(in, random_upstream(kSmall, weighting->hard));
    for (const int64_t row : {1, 4, 7, 10}) {
      EXPECT_EQ(out.log_sum_exp[row], -kInfinity);
      EXPECT_EQ(out.entropy[row], 0);
      for (int64_t c = 0; c < 2; ++c) EXPECT_EQ(out.context[row * 2 + c], 0);
      for (int64_t j = 0; j < 4; ++j) EXPECT_EQ(out.weights[row * 4 + j], 0);
      for (int64_t c = 0; c < 3; ++c) EXPECT_EQ(d.at("q")[row * 3 + c], 0);
      if (weighting->hard) {
        EXPECT_EQ(out.chosen[row], -1);
        EXPECT_EQ(out.log_prob[row], 0);
      }
    }
    for (const auto& [name, gradient] : d)
      for (const double g : gradient) EXPECT_TRUE(std::isfinite(g)) << name;
  }
}

TEST_P(EveryScore, NeverReadsWhatIsMasked) {
  const Tensor lengths = Tensor::from_ids(std::vector<int64_t>{2, 3}, {2});
  const ReferenceInputs in = inputs(
      kSmall, {.score = generate::score(*GetParam(), kSmall, 3), .mask = masks::lengths(lengths)});
  const ReferenceValues<double> clean = reference_values(in);
  ReferenceValues<double> dirty = clean;
  for (const auto& [b, j] : {std::pair{0, 2}, {0, 3}, {1, 3}})
    for (int64_t d = 0; d < 3; ++d) {
      dirty.k.data[(b * 4 + j) * 3 + d] = d == 0 ? kInfinity : std::nan("");
      if (d < 2) dirty.v.data[(b * 4 + j) * 2 + d] = d == 0 ? -kInfinity : std::nan("");
    }
  const ReferenceUpstream up = random_upstream(kSmall, false);
  EXPECT_EQ(reference_forward(in, clean).context, reference_forward(in, dirty).context);
  EXPECT_EQ(reference_backward(in, clean, up), reference_backward(in, dirty, up));
}

class EveryWeighting : public testing::TestWithParam<const WeightingDef*> {};
INSTANTIATE_TEST_SUITE_P(Reference, EveryWeighting,
                         testing::ValuesIn(weighting_table().begin(), weighting_table().end()),
                         generate::kByName);

TEST_P(EveryWeighting, SumsToOneWhereItSaysSo) {
  const Sizes n{.B = 2, .H = 3, .Hk = 3, .Lq = 5, .Lk = 17, .Dq = 4, .Dk = 4, .Dv = 2};
  const ReferenceOutput out = reference_forward(
      inputs(n, {.weighting = {.def = GetParam(), .numbers = generate::numbers(GetParam())}}));
  for (int64_t r = 0; r < n.B * n.H * n.Lq; ++r) {
    const auto row = out.weights.begin() + r * n.Lk;
    const double sum = std::accumulate(row, row + n.Lk, 0.0);
    if (GetParam()->normalised) {
      EXPECT_NEAR(sum, 1.0, 1e-12);
      EXPECT_GE(*std::min_element(row, row + n.Lk), 0);
    }
    if (GetParam()->hard) {
      EXPECT_EQ(std::max_element(row, row + n.Lk) - row, out.chosen[r]);
      EXPECT_EQ(sum, 1.0);
    }
  }
}

TEST_P(EveryWeighting, IsFiniteAtScoresOfTenThousand) {
  ReferenceInputs in =
      inputs(kSmall, {.weighting = {.def = GetParam(), .numbers = generate::numbers(GetParam())}});
  in.attention.score.bias = Bias{.table = Tensor::from({1e4f, -1e4f, 1e4f, -3e3f}, {4})};
  const ReferenceOutput out = reference_forward(in);
  for (const double x : out.context) EXPECT_TRUE(std::isfinite(x));
  for (const double x : out.entropy) EXPECT_TRUE(std::isfinite(x));
  for (const auto& [name, d] : reference_backward(in, random_upstream(kSmall, GetParam()->hard)))
    for (const double x : d) EXPECT_TRUE(std::isfinite(x)) << name;
}

TEST_P(EveryWeighting, WorksRowByRowForTheKernels) {
  if (GetParam()->hard) return;  // the kernels draw for themselves
  const std::vector<float> s{0.3f, -1.2f, 0.9f, 0.1f, 2.0f}, dw{1.0f, -0.5f, 0.2f, 0.7f, -0.3f};
  std::vector<float> w(5), ds(5);
  const Weighting chosen{.def = GetParam(), .numbers = generate::numbers(GetParam())};
  const kernels::RowFormula f = row_formula(chosen);
  f.forward(f.self, 5, s.data(), w.data());
  f.backward(f.self, 5, s.data(), w.data(), dw.data(), ds.data());
  const Sizes n{.B = 1, .H = 1, .Hk = 1, .Lq = 1, .Lk = 5, .Dq = 0, .Dk = 0, .Dv = 1};
  ReferenceInputs in =
      inputs(n, {.weighting = {.def = GetParam(), .numbers = generate::numbers(GetParam())}});
  in.attention.score.bias = Bias{.table = Tensor::from(s, {5})};
  const ReferenceOutput out = reference_forward(in);
  const ReferenceGradients d =
      reference_backward(in, {.weights = std::vector<double>(dw.begin(), dw.end())});
  for (int64_t j = 0; j < 5; ++j) {
    EXPECT_NEAR(w[j], out.weights[j], 1e-7);
    EXPECT_NEAR(ds[j], d.at("bias")[j], 1e-7);
  }
}

TEST(Reference, IgnoresTheOrderOfTheKeys) {
  ReferenceInputs in = inputs(kSmall, {});
  const ReferenceOutput before = reference_forward(in);
  ReferenceValues<double> x = reference_values(in);
  const int64_t order[] = {3, 1, 0, 2};
  const ReferenceValues<double> old = x;
  for (int64_t r = 0; r < kSmall.B * kSmall.Hk * kSmall.Lk; ++r) {
    const int64_t from = r / 4 * 4 + order[r % 4];
    for (int64_t d = 0; d < 3; ++d) x.k.data[r * 3 + d] = old.k.data[from * 3 + d];
    for (int64_t d = 0; d < 2; ++d) x.v.data[r * 2 + d] = old.v.data[from * 2 + d];
  }
  const ReferenceOutput after = reference_forward(in, x);
  for (size_t e = 0; e < before.context.size(); ++e)
    EXPECT_NEAR(after.context[e], before.context[e], 1e-14);
  for (size_t e = 0; e < before.weights.size(); ++e)
    EXPECT_NEAR(after.weights[e], before.weights[e / 4 * 4 + order[e % 4]], 1e-15);
}

TEST(Reference, TakesTheMeanOfTheValuesWhenTheWidthIsZero) {
  const Sizes n{.B = 1, .H = 2, .Hk = 1, .Lq = 2, .Lk = 5, .Dq = 0, .Dk = 0, .Dv = 1};
  ReferenceInputs in = inputs(n, {});
  in.v = Tensor::from({1, 2, 3, 4, 5}, {1, 1, 5, 1});
  for (const double c : reference_forward(in).context) EXPECT_NEAR(c, 3.0, 1e-15);
}

TEST(Reference, WorksWithoutKeysAndWithoutQueries) {
  for (const auto& [Lq, Lk] : {std::pair<int64_t, int64_t>{3, 0}, {0, 4}, {0, 0}}) {
    Sizes n = kSmall;
    n.Lq = Lq;
    n.Lk = Lk;
    ReferenceInputs in = inputs(n, {.mask = masks::causal() & masks::window(1)});
    in.attention.score.bias = Bias{.table = Tensor::zeros({Lq, Lk})};
    const ReferenceOutput out = reference_forward(in);
    EXPECT_EQ(out.context, std::vector<double>(n.B * n.H * Lq * n.Dv, 0.0));
    for (const auto& [name, d] : reference_backward(in, random_upstream(n, false)))
      EXPECT_EQ(d, std::vector<double>(d.size(), 0.0)) << name;
    EXPECT_TRUE(reference_backward(in, {}).contains("bias"));
  }
}

TEST(Reference, TreatsTheLowestFiniteMaskAsAScoreAndMinusInfinityAsAbsence) {
  const float low = std::numeric_limits<float>::lowest(), none = -INFINITY;
  const Sizes n{.B = 1, .H = 1, .Hk = 1, .Lq = 3, .Lk = 2, .Dq = 2, .Dk = 2, .Dv = 1};
  ReferenceInputs in =
      inputs(n, {.mask = masks::matrix(Tensor::from({low, low, low, 0, none, none}, {3, 2}))});
  const ReferenceOutput out = reference_forward(in);
  EXPECT_EQ(out.weights, (std::vector<double>{0.5, 0.5, 0, 1, 0, 0}));
  EXPECT_EQ(out.log_sum_exp[2], -kInfinity);
}

TEST(Reference, LeavesOutAKeyOfMinusInfinity) {
  const Sizes n{.B = 1, .H = 1, .Hk = 1, .Lq = 1, .Lk = 3, .Dq = 2, .Dk = 2, .Dv = 1};
  ReferenceInputs in = inputs(n, {});
  in.q = Tensor::from({1.0f, 0.5f}, {1, 1, 1, 2});
  in.k = Tensor::from({0.0f, 0.0f, -INFINITY, -INFINITY, 0.0f, 0.0f}, {1, 1, 3, 2});
  EXPECT_EQ(reference_forward(in).weights, (std::vector<double>{0.5, 0, 0.5}));
  for (const auto& [name, d] : reference_backward(in, random_upstream(n, false)))
    for (const double x : d) EXPECT_TRUE(std::isfinite(x)) << name;
}

TEST(Reference, ReadsARelativeBiasByDistance) {
  ReferenceInputs in = inputs(kSmall, {});
  const Tensor table = generate::normal({2, 6}, 41);  // [H,Lq+Lk−1]
  std::vector<float> matrix;                          // [H,Lq,Lk]
  for (int64_t h = 0; h < 2; ++h)
    for (int64_t i = 0; i < 3; ++i)
      for (int64_t j = 0; j < 4; ++j) matrix.push_back(table.to_vector()[h * 6 + j - i + 2]);
  in.attention.score.bias = Bias{.table = table, .relative = true};
  const ReferenceOutput relative = reference_forward(in);
  in.attention.score.bias = Bias{.table = Tensor::from(matrix, {2, 3, 4})};
  EXPECT_EQ(relative.weights, reference_forward(in).weights);
}

TEST(Reference, ScalesThenCapsThenAddsTheBiasThenDividesByTheTemperature) {
  const Sizes n{.B = 1, .H = 1, .Hk = 1, .Lq = 1, .Lk = 2, .Dq = 1, .Dk = 1, .Dv = 1};
  ReferenceInputs in = inputs(n, {.score = scores::dot(), .weighting = weightings::softmax(0.5f)});
  in.q = Tensor::from({3.0f}, {1, 1, 1, 1});
  in.k = Tensor::from({1.0f, -1.0f}, {1, 1, 2, 1});
  in.attention.score.scale = 0.25f;
  in.attention.score.bias = Bias{.table = Tensor::from({0.125f, 0.5f}, {2})};
  for (const bool capped : {false, true}) {
    if (capped) in.attention.score.softcap = 0.5f;
    const double s = capped ? 0.5 * std::tanh(0.25 * 3 / 0.5) : 0.25 * 3;
    const double a = (s + 0.125) / 0.5, b = (-s + 0.5) / 0.5;
    const double total = std::exp(a) + std::exp(b), p = std::exp(a) / total;
    const ReferenceOutput out = reference_forward(in);
    EXPECT_NEAR(out.weights[0], p, 1e-15);
    EXPECT_NEAR(out.log_sum_exp[0], std::log(total), 1e-15);
    EXPECT_NEAR(out.entropy[0], -p * std::log(p) - (1 - p) * std::log(1 - p), 1e-15);
  }
}

TEST(Reference, GivesASinkItsWeightAndNoValue) {
  const Sizes n{.B = 1, .H = 2, .Hk = 1, .Lq = 1, .Lk = 2, .Dq = 1, .Dk = 1, .Dv = 1};
  ReferenceInputs in = inputs(n, {.score = scores::dot()});
  in.q = Tensor::from({1.0f, 1.0f}, {1, 2, 1, 1});
  in.k = Tensor::from({0.5f, -1.0f}, {1, 1, 2, 1});
  in.v = Tensor::from({3.0f, 7.0f}, {1, 1, 2, 1});
  in.attention.weighting = weightings::softmax(0.5f, Tensor::from({0.25f, -2.0f}, {2}));
  const ReferenceOutput out = reference_forward(in);
  for (const int h : {0, 1}) {
    const double a = std::exp(0.5 / 0.5), b = std::exp(-1.0 / 0.5);
    const double s = std::exp((h == 0 ? 0.25 : -2.0) / 0.5), total = a + b + s;
    EXPECT_NEAR(out.weights[2 * h], a / total, 1e-15);
    EXPECT_NEAR(out.weights[2 * h + 1], b / total, 1e-15);
    EXPECT_NEAR(out.context[h], (3 * a + 7 * b) / total, 1e-14);
    EXPECT_NEAR(out.log_sum_exp[h], std::log(total), 1e-15);
    double entropy = 0;
    for (const double x : {a, b, s}) entropy -= x / total * std::log(x / total);
    EXPECT_NEAR(out.entropy[h], entropy, 1e-15);
  }
}

// The centre stands at Lk/2 = 2 where u_p is 0; σ = W/2.
TEST(Reference, WeighsAPredictedWindowByItsGaussian) {
  const Sizes n{.B = 1, .H = 1, .Hk = 1, .Lq = 1, .Lk = 4, .Dq = 2, .Dk = 2, .Dv = 1};
  const Tensor w_p = Tensor::zeros({3, 2}), u_p = Tensor::zeros({3});
  ReferenceInputs in = inputs(n, {});
  ReferenceInputs inside = in;
  inside.attention.mask = masks::matrix(Tensor::from_bools(std::vector<uint8_t>{0, 1, 1, 1}, {4}));
  const std::vector<double> soft = reference_forward(inside).weights;
  const double g = std::exp(-1 / (2 * 0.25));
  const std::vector<double> product{0, soft[1] * g, soft[2], soft[3] * g};
  const double total = std::accumulate(product.begin(), product.end(), 0.0);
  in.attention.mask = masks::local_p(1, w_p, u_p);
  const std::vector<double> original = reference_forward(in).weights;
  in.attention.mask = masks::local_p(1, w_p, u_p, /*renormalise=*/true);
  const std::vector<double> renormalised = reference_forward(in).weights;
  for (int64_t j = 0; j < 4; ++j) {
    EXPECT_NEAR(original[j], product[j], 1e-15);
    EXPECT_NEAR(renormalised[j], product[j] / total, 1e-15);
  }
}

TEST(Reference, DropsWeightsAtTheirRateAndKeepsTheirMean) {
  const Sizes n{.B = 1, .H = 2, .Hk = 1, .Lq = 200, .Lk = 50, .Dq = 0, .Dk = 0, .Dv = 1};
  const ReferenceOutput out =
      reference_forward(inputs(n, {.weighting = {.dropout = 0.25f, .seed = 3}}));
  const double total = std::accumulate(out.weights.begin(), out.weights.end(), 0.0);
  const double dropped = std::count(out.weights.begin(), out.weights.end(), 0.0);
  const double N = static_cast<double>(out.weights.size());
  EXPECT_NEAR(dropped / N, 0.25, 4 * std::sqrt(0.25 * 0.75 / N));
  EXPECT_NEAR(total / (n.H * n.Lq), 1.0, 0.02);
}

// The gradient of a straight-through draw is that of softmax with the noise as a bias.
TEST(Reference, DifferentiatesAGumbelDrawAsItsNoisySoftmax) {
  const float temperature = 0.7f;
  ReferenceInputs in = inputs(kSmall, {.weighting = weightings::gumbel(5, temperature)});
  ReferenceInputs soft = in;
  soft.attention.weighting = weightings::softmax(temperature);
  soft.attention.score.bias = Bias{.table = Tensor::zeros({2, 2, 3, 4})};
  ReferenceValues<double> x = reference_values(soft);
  for (int64_t b = 0, e = 0; b < 2; ++b)
    for (int64_t h = 0; h < 2; ++h)
      for (int64_t i = 0; i < 3; ++i)
        for (int64_t j = 0; j < 4; ++j, ++e) {
          const double t = unit_open(bits32(random_key(5, Purpose::gumbel, b, h, i), j));
          x.bias.data[e] = -std::log(-std::log1p(-t)) * static_cast<double>(temperature);
        }
  ReferenceUpstream up{.context = generate::normals(24, 11), .weights = generate::normals(48, 12)};
  const ReferenceGradients hard = reference_backward(in, up),
                           expected = reference_backward(soft, x, up);
  for (const char* name : {"q", "k"})
    for (size_t e = 0; e < expected.at(name).size(); ++e)
      EXPECT_NEAR(hard.at(name)[e], expected.at(name)[e], 1e-12) << name;
  ReferenceInputs sampled = in;
  sampled.attention.weighting.def = weightings::sample(5).def;
  EXPECT_EQ(reference_forward(in).chosen, reference_forward(sampled).chosen);
  EXPECT_EQ(hard.at("v"), reference_backward(sampled, up).at("v"));
}

// ---- Hard attention --------------------------------------------------------------------------

// One query repeated over `rows`, and the scores of its keys as a bias.
ReferenceInputs drawing(const std::vector<float>& scores, int64_t rows, uint64_t seed) {
  const int64_t Lk = static_cast<int64_t>(scores.size());
  const Sizes n{.B = 1, .H = 1, .Hk = 1, .Lq = rows, .Lk = Lk, .Dq = 0, .Dk = 0, .Dv = 1};
  ReferenceInputs in = inputs(n, {.weighting = weightings::sample(seed)});
  in.attention.score.bias = Bias{.table = Tensor::from(scores, {Lk})};
  return in;
}

std::vector<double> softmaxed(const std::vector<float>& scores) {
  const std::vector<double> s(scores.begin(), scores.end());
  std::vector<double> p(s.size());
  softmax<double>(s, p);
  return p;
}

TEST(HardAttention, DrawsByProbability) {
  const std::vector<float> scores{0.0f, 1.0f, -2.0f, 0.5f, 1.5f, -0.5f};
  const std::vector<double> p = softmaxed(scores);
  constexpr int64_t kDraws = 20000;
  for (const uint64_t seed : {1u, 2u, 77u}) {
    std::vector<int64_t> count(6);
    for (const int64_t j : reference_forward(drawing(scores, kDraws, seed)).chosen) ++count[j];
    double chi_square = 0;
    for (int64_t j = 0; j < 6; ++j)
      chi_square += std::pow(count[j] - kDraws * p[j], 2) / (kDraws * p[j]);
    EXPECT_LT(chi_square, 25.7) << "5 degrees of freedom: one seed in ten thousand";
  }
}

struct Estimate {
  std::vector<double> mean, variance;
};

// (onehot − p)(R − b) over many draws, through the gradient of log_prob.
Estimate reinforce(const std::vector<float>& scores, const std::vector<double>& reward,
                   double baseline, int64_t draws) {
  const ReferenceInputs in = drawing(scores, 1, 0);
  std::vector<double> sum(reward.size()), squares(reward.size());
  for (int64_t seed = 0; seed < draws; ++seed) {
    ReferenceInputs draw = in;
    draw.attention.weighting.seed = seed;
    const int64_t chosen = reference_forward(draw).chosen[0];
    const ReferenceGradients d =
        reference_backward(draw, {.log_prob = {reward[chosen] - baseline}});
    for (size_t j = 0; j < reward.size(); ++j) {
      sum[j] += d.at("bias")[j];
      squares[j] += d.at("bias")[j] * d.at("bias")[j];
    }
  }
  Estimate out;
  for (size_t j = 0; j < reward.size(); ++j) {
    out.mean.push_back(sum[j] / draws);
    out.variance.push_back(squares[j] / draws - out.mean[j] * out.mean[j]);
  }
  return out;
}

TEST(HardAttention, LearnsByReinforceAndABaselineHelps) {
  const std::vector<float> scores{0.2f, -0.4f, 1.0f, 0.0f};
  const std::vector<double> reward{5.0, 6.0, 4.5, 7.0}, p = softmaxed(scores);
  const double expected_reward = dot(p, reward);
  constexpr int64_t kDraws = 20000;
  const Estimate plain = reinforce(scores, reward, 0, kDraws);
  const Estimate based = reinforce(scores, reward, expected_reward, kDraws);
  double variance_plain = 0, variance_based = 0;
  for (size_t j = 0; j < 4; ++j) {
    const double exact = p[j] * (reward[j] - expected_reward);  // ∂ Σ p R / ∂ s_j
    EXPECT_NEAR(plain.mean[j], exact, 4.5 * std::sqrt(plain.variance[j] / kDraws));
    EXPECT_NEAR(based.mean[j], exact, 4.5 * std::sqrt(based.variance[j] / kDraws));
    variance_plain += plain.variance[j];
    variance_based += based.variance[j];
  }
  EXPECT_LT(variance_based, variance_plain / 4);
  RecordProperty("variance_without_baseline", std::to_string(variance_plain));
  RecordProperty("variance_with_baseline", std::to_string(variance_based));
}

}  // namespace
}  // namespace fovea
