#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attention/expect.h"
#include "fovea/memory.h"
#include "fovea/ops.h"

// A NaN that a query sees shows in its result, whatever the plan and the weighting; so does a score
// that overflows, and one of −inf forbids. The reference says what that means, in every number.
namespace fovea::tests {
namespace {

// A call with something wrong in it, and the query rows that this concerns.
struct Wrong {
  std::string name;
  Call call;
};

void set_row(Tensor& t, int64_t row, float value) {  // of every head
  std::vector<float> x = t.to_vector();
  const int64_t L = t.size(2), width = t.size(3);
  for (int64_t r = row; r < t.size(0) * t.size(1) * L; r += L) {
    for (int64_t d = 0; d < width; ++d) x[r * width + d] = value;
  }
  t = Tensor::from(x, t.shape());
}

Wrong with(const Call& x, const std::string& name, int64_t query, float in_query, int64_t key,
           float in_key) {
  Wrong w{name, x};
  if (query >= 0) set_row(w.call.q, query, in_query);
  if (key >= 0) set_row(w.call.k, key, in_key);
  return w;
}

// NaN have many bits: a GPU's, and of memory that was filled.
const float kNanOfBits = std::bit_cast<float>(0x7fffffffu);
const float kNanOfFilled = std::bit_cast<float>(0xffffffffu);

// NaN in a key and in a query, and scores of +∞ and −∞: some by themselves, some by their size.
std::vector<Wrong> wrongs(Call x) {
  const int64_t i = x.q.size(2) / 2, j = x.k.size(2) - 2;
  x.q = Tensor::rand(x.q.shape(), 7) +
        Tensor::scalar(0.1f);  // the sign of a score is that of its key
  std::vector<Wrong> all;
  all.push_back(with(x, "NaN in a key", -1, 0, j, kNanOfBits));
  all.push_back(with(x, "NaN in a query", i, kNanOfFilled, -1, 0));
  all.push_back(with(x, "a key of -inf", -1, 0, j, -kInf));
  all.push_back(with(x, "a query of -inf, which permits no key", i, -kInf, -1, 0));
  all.back().call.k = Tensor::rand(x.k.shape(), 8) + Tensor::scalar(0.1f);
  all.push_back(with(x, "scores beyond floats", i, 1e37f, j, 40.0f));
  all.push_back(with(x, "a score below floats", i, 1e37f, j, -40.0f));
  return all;
}

// log w has no bound where a sparse weight ends, and 1e37 times a rounding is no small number.
Results comparable(Results r, const std::string& what, bool masked = false) {
  const bool huge = what.ends_with(masked ? "floats" : "below floats");
  std::erase_if(r, [&](const auto& x) {
    return x.first.ends_with("of entropy") || (huge && x.first.find(" of ") != std::string::npos);
  });
  return r;
}

struct NanShape {
  int64_t Lq, Lk, D;
};

// A part of a vector; several blocks of queries; several of keys; one query, which has a kernel of
// its own.
const std::vector<NanShape> kNanShapes = {{5, 21, 5}, {67, 19, 3}, {3, 530, 4}, {1, 1030, 16}};

Sizes sizes(const NanShape& s) {
  return {.B = 1, .H = 2, .Hk = 1, .Lq = s.Lq, .Lk = s.Lk, .Dq = s.D, .Dk = s.D, .Dv = s.D};
}

bool can(const Call& x) {
  try {
    attend(x.q, x.k, x.v, x.attention, x.want);
    return true;
  } catch (const Error&) {
    return false;
  }
}

void expect_as_in_the_reference(Wrong w, Plan plan, const Results& expected) {
  SCOPED_TRACE(w.name + " " + name_of(plan));
  w.call.want.plan = plan;
  const Tolerance loose{2e-4, 1e-3};
  const Results found = results(w.call);
  expect_near(found, comparable(expected, w.name, !w.call.attention.mask.terms.empty()), loose);
  if (testing::Test::HasFatalFailure()) return;
  w.call.want.weights = true;
  const Attended kept = attend(w.call.q, w.call.k, w.call.v, w.call.attention, w.call.want);
  expect_near(kept.context.to_vector(), expected.at("context"), loose, "context, weights kept");
  expect_near(kept.weights().to_vector(), expected.at("weights"), loose, "kept weights");
}

void expect_every_plan_alike(const Sizes& n, const Mask& mask, const WeightingDef* weighting,
                             float dropout, std::optional<float> softcap = {}) {
  for (const char* score : {"dot", "additive_keras"}) {
    const bool additive = std::string(score) != "dot";
    SCOPED_TRACE(std::string(score) + " " + weighting->name);
    Call x = call(n,
                  {score_for(score, n),
                   mask,
                   {.def = weighting,
                    .numbers = generate::numbers(weighting),
                    .dropout = dropout,
                    .seed = 3}},
                  5);
    x.attention.score.softcap = softcap;
    for (Wrong& w : wrongs(x)) {
      const bool huge = w.name.find("floats") != std::string::npos;
      if ((huge || w.name.starts_with("a query of -inf")) && additive)
        continue;                                                  // tanh has a bound
      if (huge && !weighting->normalised && n.Lk > 100) continue;  // their sums overflow as well
      w.call.want.plan = Plan::reference;
      const Results expected = results(w.call);
      for (const Plan plan : {Plan::fused, Plan::composed, Plan::linear}) {
        w.call.want.plan = plan;
        if (!can(w.call)) continue;
        on_every_isa([&](const std::string&) { expect_as_in_the_reference(w, plan, expected); });
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

class Nan : public testing::TestWithParam<const WeightingDef*> {};

TEST_P(Nan, AndInfinityAreTheSameInEveryPlan) {
  for (const NanShape& shape : kNanShapes) {
    const Sizes n = sizes(shape);
    SCOPED_TRACE("Lq " + std::to_string(n.Lq) + " Lk " + std::to_string(n.Lk));
    std::vector<Mask> masks{{}};
    if (n.Lk < 100) masks.push_back(masks::causal());
    for (const Mask& mask : masks) {
      expect_every_plan_alike(n, mask, GetParam(), 0.0f);
      if (HasFatalFailure()) return;
    }
  }
  expect_every_plan_alike(sizes(kNanShapes[0]), masks::causal(), GetParam(), 0.5f);
}

// Capped, a score beyond floats is c and one below them −c; NaN stays.
TEST_P(Nan, AndInfinityAreTheSameInEveryPlanWhenCapped) {
  for (const NanShape& shape : kNanShapes) {
    SCOPED_TRACE("Lq " + std::to_string(shape.Lq) + " Lk " + std::to_string(shape.Lk));
    expect_every_plan_alike(sizes(shape), {}, GetParam(), 0.0f, 1.5f);
    if (HasFatalFailure()) return;
  }
  expect_every_plan_alike(sizes(kNanShapes[0]), masks::causal(), GetParam(), 0.0f, 1.5f);
}

// The rule itself, not by the reference's word: the last keys hold a NaN, which the last queries of
// a causal mask see.
TEST_P(Nan, ShowsToWhoSeesItAndToNobodyElse) {
  const WeightingDef& def = *GetParam();
  const Sizes n{.B = 1, .H = 1, .Hk = 1, .Lq = 40, .Lk = 40, .Dq = 6, .Dk = 6, .Dv = 3};
  const int64_t bad = 29;
  for (const Plan plan : {Plan::reference, Plan::fused, Plan::composed, Plan::linear}) {
    Call x = call(n, {scores::dot(), masks::causal(), {.def = &def, .seed = 3}});
    x.want.plan = plan;
    if (!can(x)) continue;
    SCOPED_TRACE(def.name + std::string(" ") + name_of(plan));
    on_every_isa([&](const std::string&) {
      const Results clean = results(x);
      Call y = x;
      set_row(y.k, bad, kNan);
      const Results r = results(y);
      for (int64_t i = 0; i < n.Lq; ++i) {
        const bool sees = i >= bad;
        for (int64_t d = 0; d < n.Dv; ++d) {
          ASSERT_EQ(std::isnan(r.at("context")[i * n.Dv + d]), sees) << i;
        }
        for (int64_t j = 0; j < n.Lk; ++j) {
          const bool spoilt = sees && (def.normalised ? j <= i : j == bad);
          ASSERT_EQ(std::isnan(r.at("weights")[i * n.Lk + j]), spoilt) << i << " " << j;
        }
        ASSERT_EQ(std::isnan(r.at("log_sum_exp")[i]), sees);
        ASSERT_EQ(std::isnan(r.at("entropy")[i]), sees);
        ASSERT_EQ(std::isnan(r.at("dq of context")[i * n.Dq]),
                  sees && !def.learns_by_log_prob && def.name != "argmax")
            << i;
        if (!def.hard) continue;
        ASSERT_EQ(r.at("chosen")[i], sees ? -1 : clean.at("chosen")[i]);
        ASSERT_EQ(std::isnan(r.at("log_prob")[i]), sees);
      }
    });
    if (HasFatalFailure()) return;
  }
}

// A weight of 0, hidden or dropped, leaves its value unread; any other shows what is there.
void expect_value_read_by_weight(const WeightingDef& def, const Mask& mask, float dropout) {
  const Sizes n{.B = 1, .H = 2, .Hk = 1, .Lq = 40, .Lk = 40, .Dq = 6, .Dk = 6, .Dv = 3};
  Call x = call(n, {scores::dot(), mask, {.def = &def, .dropout = dropout, .seed = 3}});
  set_row(x.v, 7, kNan);
  for (const Plan plan : {Plan::reference, Plan::fused, Plan::composed, Plan::linear}) {
    x.want.plan = plan;
    if (!can(x)) continue;
    SCOPED_TRACE(def.name + std::string(" ") + name_of(plan));
    on_every_isa([&](const std::string&) {
      const Attended a = attend(x.q, x.k, x.v, x.attention, x.want);
      const std::vector<float> context = a.context.to_vector(), w = a.weights().to_vector();
      for (int64_t i = 0; i < n.H * n.Lq; ++i) {
        ASSERT_EQ(std::isnan(context[i * n.Dv]), w[i * n.Lk + 7] != 0.0f) << i;
      }
    });
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST_P(Nan, OfAValueShowsWhereItHasWeight) {
  for (const float dropout : {0.0f, 0.5f}) {
    SCOPED_TRACE("dropout " + std::to_string(dropout));
    for (const Mask& mask : {Mask{}, masks::causal()}) {
      expect_value_read_by_weight(*GetParam(), mask, dropout);
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, Nan,
                         testing::ValuesIn(weighting_table().begin(), weighting_table().end()),
                         [](const auto& of) { return of.param->name; });

TEST(NanAmongWeights, ComesFirstInTheTop) {
  const Sizes n{.B = 1, .H = 1, .Hk = 1, .Lq = 1, .Lk = 50, .Dq = 4, .Dk = 4, .Dv = 4};
  Call x = call(n, {scores::dot(), {}, weightings::sigmoid()});
  set_row(x.k, 37, kNan);
  const TopK top = attend(x.q, x.k, x.v, x.attention).top(2);
  EXPECT_EQ(top.keys.to_ids()[0], 37);
  EXPECT_TRUE(std::isnan(top.weights.to_vector()[0]));
}

// Without weights' sums a score that is NaN spoils no gradient but those of its own features, and
// these no other, although additive features share divisions.
TEST(NanInOneFeature, StaysThere) {
  const Sizes n{.B = 1, .H = 1, .Hk = 1, .Lq = 9, .Lk = 21, .Dq = 40, .Dk = 40, .Dv = 3};
  for (const Mask& mask : {Mask{}, masks::causal()}) {
    for (const bool in_key : {true, false}) {
      SCOPED_TRACE(std::string(in_key ? "of a key" : "of a query") +
                   (mask.terms.empty() ? "" : ", causal"));
      Call x = call(n, {score_for("additive_keras", n), mask, weighting("none")}, 5);
      Tensor& spoilt = in_key ? x.k : x.q;
      std::vector<float> values = spoilt.to_vector();
      values[4 * n.Dq + 21] = kNan;
      spoilt = Tensor::from(values, spoilt.shape());
      x.want.plan = Plan::reference;
      const Results expected = results(x);
      x.want.plan = Plan::fused;
      on_every_isa([&](const std::string&) { expect_near(results(x), expected, {1e-4, 1e-4}); });
      if (HasFatalFailure()) return;
    }
  }
}

TEST(NanInAPredictedCentre, Shows) {
  const Sizes n{.B = 1, .H = 1, .Hk = 1, .Lq = 4, .Lk = 30, .Dq = 6, .Dk = 6, .Dv = 3};
  for (const Plan plan : {Plan::reference, Plan::fused, Plan::composed}) {
    for (const char* weighting : {"softmax", "argmax", "sparsemax"}) {
      SCOPED_TRACE(std::string(weighting) + " " + name_of(plan));
      Call x = call(
          n, {scores::dot(), masks::local_p(5, Tensor::randn({5, 6}, 1), Tensor::randn({5}, 2)),
              fovea::weighting(weighting)});
      x.want.plan = plan;
      set_row(x.q, 2, kNan);
      const std::vector<float> context =
          attend(x.q, x.k, x.v, x.attention, x.want).context.to_vector();
      for (int64_t i = 0; i < n.Lq; ++i) EXPECT_EQ(std::isnan(context[i * n.Dv]), i == 2) << i;
    }
  }
}

// ---- a Memory's steps --------------------------------------------------------------------------

// context and weights of one step, and the gradients of query, keys and values.
Results step_results(const Tensor& q_in, const Tensor& k_in, const Tensor& v_in, const Score& score,
                     const Weighting& weighting, const Tensor& lengths) {
  Tensor q = q_in.detach(), k = k_in.detach(), v = v_in.detach();
  const Leaves leaves{
      {"q", q.set_requires_grad()}, {"k", k.set_requires_grad()}, {"v", v.set_requires_grad()}};
  Memory memory(k, v, score, lengths);
  const MemoryStep step = memory(q, {}, weighting);
  Results r;
  r["context"] = step.context.to_vector();
  r["weights"] = step.weights().to_vector();
  add_gradients(step.context, Tensor::randn(step.context.shape(), 11), "context", leaves, r);
  return r;
}

Results reference_step(const Tensor& q, const Tensor& k, const Tensor& v, const Score& score,
                       const Weighting& weighting, const Tensor& lengths) {
  Call x{.q = q.unsqueeze(1), .k = k, .v = v};
  x.attention = {score, masks::lengths(lengths), weighting};
  x.want.plan = Plan::reference;
  const Leaves leaves = make_leaves(x);
  const Attended a = attend(x.q, x.k, x.v, x.attention, x.want);
  Results r;
  r["context"] = a.context.to_vector();
  r["weights"] = a.weights().to_vector();
  add_gradients(a.context, Tensor::randn({q.size(0), v.size(2)}, 11).unsqueeze(1), "context",
                {leaves.begin(), leaves.begin() + 3}, r);
  return r;
}

TEST(NanInAMemory, IsAsInTheReference) {
  const int64_t B = 3, Lk = 21, D = 9, Dv = 5;
  const Sizes n{.B = B, .H = 1, .Hk = 1, .Lq = 1, .Lk = Lk, .Dq = D, .Dk = D, .Dv = Dv};
  const Tensor lengths = Tensor::from_ids(std::vector<int64_t>{21, 13, 0}, {B});
  struct Spoilt {
    std::string name;
    int64_t query, key;  // which row of q [B,D] and of k [B·Lk,D]
    float in_query, in_key;
  };
  const std::vector<Spoilt> all = {{"NaN in a key", -1, Lk + 12, 0, kNan},
                                   {"NaN behind a length", -1, Lk + 13, 0, kNan},
                                   {"NaN in a query", 1, -1, kNan, 0},
                                   {"NaN in a query that sees nothing", 2, -1, kNan, 0},
                                   {"a key of -inf", -1, 5, 0, -kInf},
                                   {"beyond floats", 1, Lk + 4, 1e37f, 40.0f},
                                   {"below floats", 1, Lk + 4, 1e37f, -40.0f}};
  for (const char* score : {"dot", "additive_keras"}) {
    for (const WeightingDef* def : weighting_table()) {
      for (const Spoilt& x : all) {
        SCOPED_TRACE(std::string(score) + " " + def->name + " " + x.name);
        if (std::string(score) != "dot" && x.name.ends_with("floats")) continue;
        Tensor q = Tensor::rand({1, 1, B, D}, 1) + Tensor::scalar(0.1f);
        Tensor k = Tensor::randn({1, 1, B * Lk, D}, 2);
        if (x.query >= 0) set_row(q, x.query, x.in_query);
        if (x.key >= 0) set_row(k, x.key, x.in_key);
        q = q.reshape({B, D});
        k = k.reshape({B, Lk, D});
        const Tensor v = Tensor::randn({B, Lk, Dv}, 3);
        const Score s = score_for(score, n);
        const Weighting w{.def = def, .numbers = generate::numbers(def), .seed = 3};
        const Results expected = reference_step(q, k, v, s, w, lengths);
        on_every_isa([&](const std::string&) {
          expect_near(step_results(q, k, v, s, w, lengths), comparable(expected, x.name),
                      {1e-4, 1e-4});
        });
        if (HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace fovea::tests
