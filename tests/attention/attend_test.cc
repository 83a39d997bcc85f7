#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/check.h"
#include "attention/generate.h"
#include "attention/reference.h"
#include "fovea/attention.h"
#include "fovea/runtime.h"
#include "tests/on_device.h"

// Every score × mask × weighting × plan against the scalar reference, forward and backward, on
// every instruction set.
namespace fovea {
namespace {

struct Expected {
  ReferenceInputs in;
  ReferenceOutput out;
  ReferenceUpstream up;
  ReferenceGradients gradients;
  std::vector<std::pair<std::string, Tensor>> leaves;  // by the names of the gradients
};

Tensor tensor(const std::vector<double>& x, const Shape& shape) {
  return Tensor::from(std::vector<float>(x.begin(), x.end()), shape);
}

void name_leaves(const Attention& a, Expected& e) {
  e.leaves = {{"q", e.in.q}, {"k", e.in.k}, {"v", e.in.v}};
  if (a.score.bias) e.leaves.emplace_back("bias", a.score.bias->table);
  for (const auto& [name, t] : a.score.parameters) e.leaves.emplace_back(name, t);
  for (const auto& [name, t] : a.weighting.parameters) e.leaves.emplace_back(name, t);
  for (const MaskTerm& term : a.mask.terms) {
    for (const auto& [name, t] : term.parameters) {
      if (t.dtype() == DType::f32) e.leaves.emplace_back(name, t);
    }
  }
  for (auto& [name, t] : e.leaves) t.set_requires_grad();
}

Expected expect(const Sizes& n, const Attention& a, uint64_t seed = 3) {
  const generate::Qkv x = generate::qkv(n, seed);
  Expected e{.in = {.q = x.q, .k = x.k, .v = x.v, .attention = a, .n = n, .weights = true}};
  const int64_t rows = n.B * n.H * n.Lq;
  e.up = {.context = generate::normals(rows * n.Dv, 11),
          .weights = generate::normals(rows * n.Lk, 12),
          .log_sum_exp = generate::normals(rows, 13),
          .entropy = generate::normals(rows, 14)};
  if (def_of(a.weighting).hard) e.up.log_prob = generate::normals(rows, 15);
  e.out = reference_forward(e.in);
  e.gradients = reference_backward(e.in, e.up);
  name_leaves(a, e);
  return e;
}

void expect_near(const Tensor& found, const std::vector<double>& expected, double absolute,
                 double relative, const std::string& what) {
  const std::vector<float> x = found.to_vector();
  ASSERT_EQ(x.size(), expected.size()) << what;
  double largest = 0;
  for (const double e : expected) {
    if (std::isfinite(e)) largest = std::max(largest, std::abs(e));
  }
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isinf(expected[i]) && x[i] == expected[i]) continue;
    ASSERT_NEAR(x[i], expected[i], test::slack() * (absolute + relative * largest))
        << what << "[" << i << "]";
  }
}

void compare(const Expected& e, Plan plan, const std::string& what) {
  const Sizes& n = e.in.n;
  const Shape rows{n.B, n.H, n.Lq};
  const Attended a = attend(e.in.q, e.in.k, e.in.v, e.in.attention, {.plan = plan});
  expect_near(a.context, e.out.context, 1e-5, 1e-5, what + " context");
  expect_near(a.weights(), e.out.weights, 1e-5, 1e-5, what + " weights");
  expect_near(a.log_sum_exp(), e.out.log_sum_exp, 1e-5, 1e-5, what + " log_sum_exp");
  expect_near(a.entropy(), e.out.entropy, 2e-5, 1e-5, what + " entropy");

  std::vector<Tensor> leaves;
  for (const auto& [name, t] : e.leaves) leaves.push_back(t);
  std::vector<Tensor> sums;
  const auto add = [&](const Tensor& output, const std::vector<double>& up) {
    const std::vector<Tensor> d = gradients(output, tensor(up, output.shape()), leaves);
    if (sums.empty()) sums.resize(d.size());
    for (size_t i = 0; i < d.size(); ++i) {
      const NoGrad quiet;
      sums[i] = sums[i] ? sums[i].clone().add_(d[i]) : d[i];
    }
  };
  add(a.context, e.up.context);
  add(a.weights(), e.up.weights);
  add(a.log_sum_exp(), e.up.log_sum_exp);
  add(a.entropy(), e.up.entropy);
  if (def_of(e.in.attention.weighting).hard) {
    EXPECT_EQ(a.chosen().to_ids(), e.out.chosen) << what;
    expect_near(a.log_prob(), e.out.log_prob, 1e-5, 1e-5, what + " log_prob");
    add(a.log_prob(), e.up.log_prob);
  }
  for (size_t i = 0; i < leaves.size(); ++i) {
    expect_near(sums[i], e.gradients.at(e.leaves[i].first), 2e-5, 1e-4,
                what + " d" + e.leaves[i].first);
  }
  // Asked for in advance, the weights are the same, and so is the context, to the bit.
  const Attended kept =
      attend(e.in.q, e.in.k, e.in.v, e.in.attention, {.weights = true, .plan = plan});
  EXPECT_EQ(kept.context.to_vector(), a.context.to_vector()) << what;
  expect_near(kept.weights(), e.out.weights, 1e-5, 1e-5, what + " kept weights");
}

std::vector<Plan> plans_for(const Attention& a, bool factored) {
  std::vector<Plan> plans{Plan::composed, Plan::automatic};
  if (factored) plans.push_back(Plan::fused);
  const bool prefix = a.mask.terms.empty() ||
                      (a.mask.terms.size() == 1 && (a.mask.terms[0].def->name == "causal" ||
                                                    a.mask.terms[0].def->name == "lengths" ||
                                                    a.mask.terms[0].def->name == "everything"));
  const std::string& score = def_of(a.score).name;
  const bool dot =
      score != "additive" && score != "additive_keras" && score != "tanh_unit" && score != "mlp";
  if (def_of(a.weighting).name == "none" && prefix && dot && factored && !a.score.softcap &&
      a.weighting.dropout == 0.0f) {
    plans.push_back(Plan::linear);
  }
  return plans;
}

void on_every_isa(const Expected& e, bool factored, const std::string& what) {
  for (const std::string& isa : test::tested_isas()) {
    use_isa(isa);
    for (const Plan plan : plans_for(e.in.attention, factored)) {
      compare(e, plan, what + " " + name_of(plan) + " " + isa);
      if (testing::Test::HasFatalFailure()) break;
    }
  }
  use_isa("");
}

std::vector<std::pair<std::string, Mask>> masks_for(const Sizes& n) {
  std::vector<std::pair<std::string, Mask>> masks;
  const generate::Free free{.A = 5, .A2 = 4, .width = 3};
  for (const MaskDef* def : mask_table())
    masks.emplace_back(def->name, generate::mask(*def, n, 5, free));
  const auto of = [&](const char* name) {
    for (const auto& [known, m] : masks) {
      if (known == name) return m;
    }
    throw Error("masks_for", name);
  };
  masks.emplace_back("causal+window", of("causal") & of("window"));
  masks.emplace_back("window:4,1", masks::window(4, 1));
  masks.emplace_back("lengths+local_p", of("lengths") & of("local_p"));
  masks.emplace_back("matrix+causal", of("matrix") & of("causal"));
  Mask renormalised = of("local_p");
  renormalised.terms[0].renormalise = true;
  masks.emplace_back("local_p:renormalise", renormalised);
  return masks;
}

class AttendWithScore : public testing::TestWithParam<const ScoreDef*> {};

TEST_P(AttendWithScore, MatchesTheReferenceUnderEveryMaskAndWeighting) {
  const Sizes n{.B = 2, .H = 2, .Hk = 1, .Lq = 11, .Lk = 19, .Dq = 7, .Dk = 7, .Dv = 5};
  for (const auto& [mask_name, mask] : masks_for(n)) {
    for (const WeightingDef* weighting : weighting_table()) {
      const Attention a{generate::score(*GetParam(), n, 17),
                        mask,
                        {.def = weighting, .numbers = generate::numbers(weighting), .seed = 5}};
      const std::string what = GetParam()->name + " " + mask_name + " " + weighting->name;
      const Expected e = expect(n, a);
      const bool factored = GetParam()->name != "mlp";
      if (mask_name == "causal") {
        on_every_isa(e, factored, what);
      } else {
        compare(e, factored ? Plan::fused : Plan::composed, what);
      }
      if (HasFatalFailure()) return;
    }
  }
}

// A cap that most scores feel, under a temperature, with and without a bias. Where one key is
// chosen it is higher: scores that are far beyond a cap are equal.
TEST_P(AttendWithScore, MatchesTheReferenceWhenCapped) {
  const Sizes n{.B = 2, .H = 2, .Hk = 1, .Lq = 11, .Lk = 19, .Dq = 7, .Dk = 7, .Dv = 5};
  for (const auto& [mask_name, mask] : masks_for(n)) {
    for (const WeightingDef* weighting : weighting_table()) {
      Attention a{generate::score(*GetParam(), n, 17),
                  mask,
                  {.def = weighting,
                   .numbers = generate::numbers(weighting),
                   .temperature = 0.6f,
                   .seed = 5}};
      a.score.softcap = weighting->hard ? 6.0f : 0.9f;
      const std::string what = GetParam()->name + " " + mask_name + " " + weighting->name;
      const bool everywhere = mask_name == "causal";
      if (everywhere) a.score.bias = Bias{generate::normal({n.H, n.Lq, n.Lk}, 8), false};
      Expected e = expect(n, a);
      // log w has no bound where a sparse weight ends.
      const bool soft = weighting->kind == WeightingKind::softmax || !weighting->normalised;
      if (!soft && !weighting->hard) {
        std::fill(e.up.entropy.begin(), e.up.entropy.end(), 0.0);
        e.gradients = reference_backward(e.in, e.up);
      }
      if (everywhere) {
        on_every_isa(e, GetParam()->name != "mlp", what);
      } else {
        compare(e, Plan::automatic, what);
      }
      if (HasFatalFailure()) return;
    }
  }
}

// Some rows see no key, and their log-sum-exp is the sink.
TEST_P(AttendWithScore, MatchesTheReferenceWithASink) {
  const Sizes n{.B = 2, .H = 2, .Hk = 1, .Lq = 11, .Lk = 19, .Dq = 7, .Dk = 7, .Dv = 5};
  std::vector<std::pair<std::string, Mask>> masks = masks_for(n);
  masks.emplace_back(
      "window past the keys",
      masks::window(0) & masks::lengths(Tensor::from_ids(std::vector<int64_t>{4, 0}, {2})));
  for (const auto& [mask_name, mask] : masks) {
    for (const float dropout : {0.0f, 0.3f}) {
      Attention a{generate::score(*GetParam(), n, 17), mask,
                  weightings::softmax(0.6f, Tensor::from({0.4f, -1.1f}, {2}))};
      a.weighting.dropout = dropout;
      const std::string what = GetParam()->name + " " + mask_name;
      if (mask_name == "causal") {
        on_every_isa(expect(n, a), GetParam()->name != "mlp", what);
      } else {
        compare(expect(n, a), Plan::automatic, what);
      }
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, AttendWithScore,
                         testing::ValuesIn(score_table().begin(), score_table().end()),
                         [](const auto& x) { return x.param->name; });

class AttendWithWeighting : public testing::TestWithParam<const WeightingDef*> {};

// Longer than a tile in both directions, temperature, dropout and a bias by distance.
TEST_P(AttendWithWeighting, MatchesTheReferenceAcrossTiles) {
  const Sizes n{.B = 1, .H = 2, .Hk = 1, .Lq = 75, .Lk = 301, .Dq = 9, .Dk = 9, .Dv = 10};
  for (const char* score : {"scaled_dot", "additive_keras"}) {
    for (const char* mask_name : {"", "causal", "window:70", "window:5,90", "causal+window:40"}) {
      Attention a{fovea::score(score),
                  mask(mask_name),
                  {.def = GetParam(), .numbers = generate::numbers(GetParam()), .seed = 9}};
      if (std::string(score) == "additive_keras")
        a.score.parameters["u"] = Tensor::randn({n.Dq}, 4);
      a.score.bias = Bias{generate::normal({n.H, n.Lq + n.Lk - 1}, 8), true};
      if (std::string(mask_name) == "window:70") a.score.softcap = 1.2f;
      a.weighting.temperature = 1.7f;
      a.weighting.dropout = 0.25f;
      const Expected e = expect(n, a);
      const bool everywhere = std::string(mask_name) == "causal";
      for (const std::string& isa :
           everywhere ? test::tested_isas() : std::vector<std::string>{""}) {
        use_isa(isa);
        compare(e, Plan::fused, std::string(score) + " " + mask_name + " " + isa);
        if (HasFatalFailure()) return;
      }
      use_isa("");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, AttendWithWeighting,
                         testing::ValuesIn(weighting_table().begin(), weighting_table().end()),
                         [](const auto& x) { return x.param->name; });

// A bias of every rank, its gradient summed where it was spread.
TEST(Bias, OfRank1To4IsAsIfExpanded) {
  const Sizes n{.B = 3, .H = 4, .Hk = 2, .Lq = 70, .Lk = 37, .Dq = 8, .Dk = 8, .Dv = 8};
  for (const Shape& shape : {Shape{37}, Shape{70, 37}, Shape{70, 1}, Shape{4, 1, 37},
                             Shape{3, 1, 70, 37}, Shape{1, 4, 70, 1}, Shape{3, 4, 70, 37}}) {
    Attention a;
    a.score.bias = Bias{Tensor::randn(shape, 21), false};
    compare(expect(n, a), Plan::fused, "bias " + to_string(shape));
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace fovea
