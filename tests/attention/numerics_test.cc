#include <cmath>
#include <limits>

#include "attention/expect.h"
#include "core/allocator.h"
#include "core/processor.h"
#include "fovea/ops.h"
#include "tests/host.h"

// What attend() does with numbers that ordinary code stumbles over: rows that see nothing, NaN and
// infinity behind a mask, huge scores, the lowest finite number, memory never written.
namespace fovea::tests {
namespace {

struct Case {
  std::string name;
  Sizes n;
  Mask mask;
  std::optional<Bias> bias = {};
  std::optional<float> softcap = {};
};

// Some rows see nothing, some keys are seen by nobody; by every means there is.
std::vector<Case> blind_cases() {
  const Sizes n{.B = 3, .H = 2, .Hk = 1, .Lq = 19, .Lk = 21, .Dq = 6, .Dk = 6, .Dv = 5};
  std::vector<Case> cases;
  cases.push_back(
      {"lengths", n, masks::lengths(Tensor::from_ids(std::vector<int64_t>{9, 0, 21}, {3}))});

  std::vector<uint8_t> allowed(n.Lq * n.Lk);
  std::vector<float> added(n.Lq * n.Lk, -kInf);
  for (int64_t i = 0; i < n.Lq; ++i) {
    for (int64_t j = 0; j < n.Lk; ++j) {
      const bool sees = i % 4 != 1 && j % 5 != 2 && (i + j) % 3 != 0;
      allowed[i * n.Lk + j] = sees;
      if (sees) added[i * n.Lk + j] = 0.01f * static_cast<float>(i - j);
    }
  }
  cases.push_back({"bool matrix", n, masks::matrix(Tensor::from_bools(allowed, {n.Lq, n.Lk}))});
  cases.push_back({"f32 matrix", n, masks::matrix(Tensor::from(added, {n.Lq, n.Lk}))});
  cases.push_back({"bias", n, {}, Bias{Tensor::from(added, {1, n.Lq, n.Lk}), false}});
  cases.push_back({"bias, capped", n, {}, cases.back().bias, 0.8f});

  Sizes many_queries = n, many_keys = n;
  many_queries.Lq = 40, many_queries.Lk = 9;
  many_keys.Lq = 9, many_keys.Lk = 80;
  cases.push_back({"window past the keys", many_queries, masks::window(2)});
  cases.push_back({"causal, more queries than keys", many_queries, masks::causal()});
  cases.push_back({"window, keys past it", many_keys, masks::window(2)});
  cases.push_back({"window, keys past it, capped", many_keys, masks::window(2), {}, 0.8f});
  return cases;
}

// Which queries [B,H,Lq] see no key, and which keys [B,Hk,Lk] no query sees.
struct Unseen {
  std::vector<bool> queries, keys;
};

Unseen unseen(const Case& c) {
  Attention a{.mask = c.mask};
  a.score.bias = c.bias;
  const Call x = call(c.n, a);
  const ReferenceOutput out =
      reference_forward({.q = x.q, .k = x.k, .v = x.v, .attention = a, .n = c.n, .weights = true});
  const Sizes& n = c.n;
  Unseen u{std::vector<bool>(n.B * n.H * n.Lq, true), std::vector<bool>(n.B * n.Hk * n.Lk, true)};
  for (int64_t row = 0; row < n.B * n.H * n.Lq; ++row) {
    const int64_t pair = row / (n.H * n.Lq) * n.Hk + row / n.Lq % n.H / (n.H / n.Hk);
    for (int64_t j = 0; j < n.Lk; ++j) {
      if (out.weights[row * n.Lk + j] == 0) continue;
      u.queries[row] = u.keys[pair * n.Lk + j] = false;
    }
  }
  return u;
}

Attention attention_for(const Case& c, const std::string& score, const WeightingDef* weighting) {
  Attention a{score_for(score, c.n),
              c.mask,
              {.def = weighting, .numbers = generate::numbers(weighting), .seed = 5}};
  a.score.bias = c.bias;
  a.score.softcap = c.softcap;
  return a;
}

void expect_zero_rows(const Results& r, const std::string& name, const std::vector<bool>& rows) {
  const std::vector<float>& x = r.at(name);
  const int64_t width = static_cast<int64_t>(x.size() / rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i]) continue;
    ASSERT_EQ(row_of(x, static_cast<int64_t>(i), width), std::vector<float>(width))
        << name << " row " << i;
  }
}

void expect_blind_rows_are_zero(const Case& c, const std::string& score,
                                const WeightingDef* weighting, const Unseen& u) {
  Call x = call(c.n, attention_for(c, score, weighting));
  const Results r = results(x);
  for (const char* name : {"context", "weights", "dq of context", "dq of weights",
                           "dq of log_sum_exp", "dq of entropy", "entropy"})
    expect_zero_rows(r, name, u.queries);
  for (const char* name : {"dk of context", "dv of context", "dk of weights", "dk of entropy"})
    expect_zero_rows(r, name, u.keys);
  for (const auto& [name, values] : r) {
    if (name != "log_sum_exp") {
      ASSERT_TRUE(all_finite(values)) << name;
    }
  }
  for (size_t i = 0; i < u.queries.size(); ++i) {
    ASSERT_EQ(r.at("log_sum_exp")[i] == -kInf, u.queries[i]);
  }

  x.want.weights = true;
  const Attended kept = attend(x.q, x.k, x.v, x.attention, x.want);
  ASSERT_EQ(kept.context.to_vector(), r.at("context"));
  expect_near(kept.weights().to_vector(), r.at("weights"), {1e-6, 1e-6}, "kept weights");
}

TEST(BlindRows, HaveContextWeightsAndGradientsZeroWhetherOrNotWeightsAreAskedFor) {
  for (const Case& c : blind_cases()) {
    const Unseen u = unseen(c);
    for (const std::string& score : families()) {
      SCOPED_TRACE(c.name + " " + score);
      for (const WeightingDef* weighting : weighting_table()) {
        SCOPED_TRACE(weighting->name);
        expect_blind_rows_are_zero(c, score, weighting, u);
        if (HasFatalFailure()) return;
      }
      on_every_isa([&](const std::string&) { expect_blind_rows_are_zero(c, score, nullptr, u); });
      if (HasFatalFailure()) return;
    }
  }
}

// ---- behind the mask ---------------------------------------------------------------------------

const std::vector<float> kGarbage = {kNan, kInf, -kInf, 1e30f};

// t with the marked rows filled.
Tensor with_rows(const Tensor& t, const std::vector<bool>& rows, float value) {
  std::vector<float> x = t.to_vector();
  const size_t width = rows.empty() ? 0 : x.size() / rows.size();
  for (size_t i = 0; i < x.size(); ++i)
    if (rows[i / width]) x[i] = value;
  return Tensor::from(x, t.shape());
}

Call with_garbage(Call x, const Unseen& u, float value) {
  const Sizes n = sizes_of(x.q, x.k, x.v);
  x.q = with_rows(x.q, u.queries, value);
  x.k = with_rows(x.k, u.keys, value);
  x.v = with_rows(x.v, u.keys, value);
  x.d_context = with_rows(Tensor::randn({n.B, n.H, n.Lq, n.Dv}, 31), u.queries, value);
  x.d_weights = with_rows(Tensor::randn({n.B, n.H, n.Lq, n.Lk}, 32), u.queries, value);
  return x;
}

void expect_garbage_ignored(const Case& c, const std::string& score, const WeightingDef* weighting,
                            const Unseen& u, const std::vector<float>& all_garbage, Ask ask) {
  const Call x = call(c.n, attention_for(c, score, weighting));
  Results clean = results(with_garbage(x, u, 0.5f), ask);
  // Finite garbage may change how additive scores are rounded, and log w has no bound where a
  // sparse weight ends.
  const WeightingDef& def = def_of(x.attention.weighting);
  const bool sparse = def.kind == WeightingKind::sparsemax || def.kind == WeightingKind::entmax15;
  if (sparse) std::erase_if(clean, [](const auto& r) { return r.first.ends_with("of entropy"); });
  for (const float garbage : all_garbage) {
    const Results r = results(with_garbage(x, u, garbage), ask);
    expect_near(r, clean, {1e-5, 1e-5}, {5e-5, 1e-4}, "with " + std::to_string(garbage));
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(BehindTheMask, NanAndInfinityChangeNothing) {
  for (const Case& c : blind_cases()) {
    const Unseen u = unseen(c);
    for (const std::string& score : families()) {
      SCOPED_TRACE(c.name + " " + score);
      for (const WeightingDef* weighting : weighting_table()) {
        SCOPED_TRACE(weighting->name);
        const bool plain = weighting->kind == WeightingKind::softmax;
        expect_garbage_ignored(c, score, weighting, u, plain ? kGarbage : std::vector{kNan},
                               Ask::everything);
        if (HasFatalFailure()) return;
      }
      on_every_isa([&](const std::string&) {
        expect_garbage_ignored(c, score, nullptr, u, {kNan, 1e30f}, Ask::context);
      });
      if (HasFatalFailure()) return;
    }
    for (const char* score : {"mlp", "cosine", "elu_dot", "tanh_unit", "location"}) {
      SCOPED_TRACE(c.name + " " + score);
      expect_garbage_ignored(c, score, nullptr, u, {kNan, kInf}, Ask::everything);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(BehindTheMask, APredictedWindowIgnoresNanToo) {
  const Sizes n{.B = 2, .H = 2, .Hk = 2, .Lq = 9, .Lk = 17, .Dq = 6, .Dk = 6, .Dv = 4};
  const Tensor lengths = Tensor::from_ids(std::vector<int64_t>{11, 0}, {2});
  const Case c{"local_p", n,
               masks::lengths(lengths) &
                   masks::local_p(40, Tensor::randn({5, 6}, 1), Tensor::randn({5}, 2))};
  const Unseen u = unseen(c);
  for (const std::string& score : families())
    expect_garbage_ignored(c, score, nullptr, u, kGarbage, Ask::everything);
}

std::vector<bool> only(int64_t row, int64_t count, int64_t of) {
  std::vector<bool> rows(count * of);
  for (int64_t i = 0; i < count; ++i) rows[i * of + row] = true;
  return rows;
}

// The part of [H,L,width] without one row of each head.
std::vector<float> without(const std::vector<float>& x, int64_t row, int64_t L, int64_t width) {
  std::vector<float> rest;
  for (size_t i = 0; i < x.size(); ++i)
    if (static_cast<int64_t>(i) / width % L != row) rest.push_back(x[i]);
  return rest;
}

// Causal: the last key and value are seen by the last query alone, the first query sees the first
// key alone. Tiles cut through both.
void expect_causal_rows_apart(const std::string& score, const WeightingDef* weighting, Plan plan) {
  const Sizes n{.B = 1, .H = 2, .Hk = 2, .Lq = 300, .Lk = 300, .Dq = 10, .Dk = 10, .Dv = 9};
  Call x = call(n, {score_for(score, n),
                    masks::causal(),
                    {.def = weighting, .numbers = generate::numbers(weighting), .seed = 4}});
  x.want.plan = plan;
  const auto last = only(299, 2, 300), first = only(0, 2, 300);
  const Tensor d = Tensor::randn({1, 2, 300, 9}, 8);
  const auto at_the_end = [&](float value) {
    Call y = x;
    y.k = with_rows(x.k, last, value);
    y.v = with_rows(x.v, last, value);
    y.d_context = d;
    return results(y, Ask::context);
  };
  const auto at_the_start = [&](float value) {
    Call y = x;
    y.q = with_rows(x.q, first, value);
    y.d_context = with_rows(d, first, value);
    return results(y, Ask::context);
  };
  const Results late = at_the_end(0.25f), early = at_the_start(0.25f);
  for (const float garbage : {kNan, kInf}) {
    const Results r = at_the_end(garbage), s = at_the_start(garbage);
    const auto compare = [&](const Results& found, const Results& clean, const char* name,
                             int64_t row, int64_t width) {
      expect_near(without(found.at(name), row, 300, width),
                  without(clean.at(name), row, 300, width), {1e-4, 1e-5}, name);
    };
    compare(r, late, "context", 299, 9);
    compare(r, late, "dq of context", 299, 10);
    compare(s, early, "context", 0, 9);
    compare(s, early, "dq of context", 0, 10);
    compare(s, early, "dk of context", 0, 10);
    compare(s, early, "dv of context", 0, 9);
  }
}

TEST(BehindTheMask, CausalRowsAreApartAcrossTiles) {
  for (const char* score : {"scaled_dot", "additive_keras"}) {
    SCOPED_TRACE(score);
    on_every_isa(
        [&](const std::string&) { expect_causal_rows_apart(score, nullptr, Plan::fused); });
    for (const WeightingDef* weighting : weighting_table()) {
      SCOPED_TRACE(weighting->name);
      expect_causal_rows_apart(score, weighting, Plan::fused);
      if (HasFatalFailure()) return;
    }
  }
  on_every_isa([&](const std::string&) {
    expect_causal_rows_apart("scaled_dot", weightings::none().def, Plan::linear);
  });
}

// ---- extremes ----------------------------------------------------------------------------------

// Small integers times 100: the scores are exact in fp32, up to ±2·10⁴. The threshold τ of sparse
// weightings is a float of that size: off by up to 2⁻¹⁰ for each of some 30 keys.
TEST(Extremes, ScoresOfTenThousandAreExactForwardAndFiniteBackward) {
  const Sizes n{.B = 1, .H = 2, .Hk = 2, .Lq = 70, .Lk = 300, .Dq = 2, .Dk = 2, .Dv = 8};
  const auto integers = [](const Shape& shape, uint64_t seed) {
    std::vector<float> x = Tensor::rand(shape, seed).to_vector();
    for (float& y : x) y = 100.0f * std::floor(3.0f * y - 1.0f);
    return Tensor::from(x, shape);
  };
  for (const char* mask : {"", "causal"}) {
    for (const char* weighting :
         {"softmax", "sparsemax", "entmax15", "argmax", "sample", "sigmoid"}) {
      SCOPED_TRACE(std::string(mask) + " " + weighting);
      Call x = call(n, {scores::dot(), fovea::mask(mask), fovea::weighting(weighting)});
      x.q = integers({1, 2, n.Lq, 2}, 4);
      x.k = integers({1, 2, n.Lk, 2}, 5);
      const auto expected = reference_results(x, false);
      on_every_isa([&](const std::string&) {
        const Results r = results(x);
        for (const auto& [name, values] : r) ASSERT_TRUE(all_finite(values)) << name;
        const bool stat =
            std::string(weighting) == "sparsemax" || std::string(weighting) == "entmax15";
        expect_near(r, expected, stat ? Tolerance{0.05, 0} : Tolerance{});
      });
      if (HasFatalFailure()) return;
    }
  }
  Call x = call(n, {scores::dot()});
  x.q = integers({1, 2, n.Lq, 2}, 4);
  x.k = integers({1, 2, n.Lk, 2}, 5);
  // A gradient of q is a sum over keys of size 100.
  expect_near(results(x, Ask::context), reference_results(x), {1e-5, 1.3e-6}, {2e-3, 1e-4}, "");
}

// It is a number like any other: a row that holds nothing else averages its keys, as softmax of
// equal numbers does; beside an ordinary score its key weighs nothing. −inf is what forbids.
TEST(Extremes, TheLowestNumberAsMaskAveragesOrVanishes) {
  const float lowest = std::numeric_limits<float>::lowest();
  const Sizes n{.B = 1, .H = 1, .Hk = 1, .Lq = 3, .Lk = 40, .Dq = 8, .Dk = 8, .Dv = 4};
  std::vector<float> added(n.Lq * n.Lk, 0.0f);
  for (int64_t j = 0; j < n.Lk; ++j) {
    added[j] = lowest;                                  // row 0: nothing else
    if (j % 2 == 1) added[n.Lk + j] = lowest;           // row 1: mixed
    added[2 * n.Lk + j] = j % 2 == 1 ? lowest : -kInf;  // row 2: beside forbidden keys
  }
  for (const float temperature : {1.0f, 0.25f, 4.0f}) {
    for (const std::string& score : families()) {
      SCOPED_TRACE(score + " T=" + std::to_string(temperature));
      Call x = call(n, {score_for(score, n), masks::matrix(Tensor::from(added, {n.Lq, n.Lk})),
                        weightings::softmax(temperature)});
      const auto expected = reference_results(x);
      on_every_isa([&](const std::string&) {
        const Results r = results(x);
        expect_near(r, expected, {1e-5, 1.3e-6}, {1e-5, 1e-4}, "");
        for (int64_t j = 0; j < n.Lk; ++j) {
          ASSERT_NEAR(r.at("weights")[j], 1.0 / 40, 1e-6);
          if (j % 2 == 1) {
            ASSERT_EQ(r.at("weights")[n.Lk + j], 0.0f);
          }
          ASSERT_NEAR(r.at("weights")[2 * n.Lk + j], j % 2 == 1 ? 1.0 / 20 : 0.0, 1e-6);
        }
      });
      if (HasFatalFailure()) return;
    }
  }
}

// A positive query scores it −inf: the key is forbidden, and gradients stay finite.
TEST(Extremes, AKeyRowOfMinusInfinityIsAsInTheReference) {
  const Sizes n{.B = 1, .H = 2, .Hk = 1, .Lq = 20, .Lk = 37, .Dq = 5, .Dk = 5, .Dv = 4};
  for (const char* mask : {"", "causal"}) {
    for (const char* weighting : {"softmax", "sparsemax", "sigmoid", "sample"}) {
      SCOPED_TRACE(std::string(mask) + " " + weighting);
      Call x = call(n, {scores::scaled_dot(), fovea::mask(mask), fovea::weighting(weighting)});
      x.q = Tensor::rand({1, 2, n.Lq, 5}, 3);
      x.k = with_rows(x.k, only(7, 1, n.Lk), -kInf);
      const auto expected = reference_results(x);
      on_every_isa([&](const std::string&) {
        expect_near(results(x, Ask::context), expected, {1e-5, 1.3e-6}, {2e-5, 1e-4}, "");
      });
      if (HasFatalFailure()) return;
    }
  }
}

// However many of the divisions a processor has replaced by estimates: inputs small and at the end
// of the range that takes them, widths with a rest.
TEST(Extremes, AdditiveScoresAreTheSameByDivisionsAndEstimates) {
  for (const int64_t width : {3, 37, 64}) {
    const Sizes n{.B = 1, .H = 2, .Hk = 1, .Lq = 19, .Lk = 70, .Dq = width, .Dk = width, .Dv = 4};
    for (const float sigma : {0.5f, 3.0f}) {
      Call x = call(n, {score_for("additive_keras", n), masks::causal()});
      x.q = (x.q * sigma).detach();
      const auto expected = reference_results(x);
      for (const auto& [how, name] : {std::pair(Inverses::shared, "shared divisions"),
                                      std::pair(Inverses::by_turns, "divisions by turns"),
                                      std::pair(Inverses::estimated, "estimates")}) {
        assume_inverses(how);
        on_every_isa([&](const std::string&) {
          expect_near(results(x), expected, {1e-5, 1e-5}, {2e-5, 1e-4}, name);
        });
      }
      assume_inverses({});
    }
  }
}

// Scores divide by u, relative to the largest: what is next to nothing beside it must not matter.
TEST(Extremes, AdditiveWeightsMayBeOfAnySize) {
  const Sizes n{.B = 1, .H = 2, .Hk = 1, .Lq = 19, .Lk = 45, .Dq = 37, .Dk = 37, .Dv = 4};
  for (const float size : {1.0f, 1e-20f, 1e4f}) {
    for (const std::vector<float>& some : std::vector<std::vector<float>>{
             {1.0f, 0.0f}, {1.0f, 1e-9f, -1e-11f, 1e-30f}, {0.0f}, {1.0f, -1e-4f}}) {
      Call x = call(n, {score_for("additive_keras", n)});
      test::edit<float>(x.attention.score.parameters.at("u"), [&](float* u) {
        for (int64_t d = 0; d < 37; ++d) {
          u[d] = size * some[static_cast<size_t>(d) % some.size()] * (d % 3 == 1 ? -1.0f : 1.0f);
        }
      });
      const auto expected = reference_results(x);
      on_every_isa([&](const std::string&) {
        const double large = size > 1.0f ? 2e-2 : 1e-5;  // scores of 10⁵ have lost as much
        expect_near(results(x, Ask::context), expected, {large, 1e-5}, {large, 1e-4},
                    std::to_string(size) + ", " + std::to_string(some.back()));
      });
      if (HasFatalFailure()) return;
    }
  }
}

// Σ_d u_d·tanh(·) is at most Σ|u|, whatever the inputs: an error of a few ulp of that, here 1e-6 of
// a score, moves a weighted mean of values by no more than that times the spread of the values.
TEST(Extremes, AdditiveScoresHoldAtAnyRangeOfTheirInputs) {
  const Sizes n{.B = 1, .H = 2, .Hk = 1, .Lq = 19, .Lk = 45, .Dq = 13, .Dk = 13, .Dv = 4};
  const auto check = [&](Call x, const std::string& what) {
    const auto expected = reference_results(x);
    on_every_isa([&](const std::string&) {
      expect_near(results(x, Ask::context), expected, {1e-5, 1e-5}, {2e-5, 1e-4}, what);
    });
  };
  for (const float sigma : {1.0f, 3.0f, 8.0f, 30.0f, 300.0f}) {
    Call x = call(n, {score_for("additive_keras", n)});
    x.q.mul_(sigma);
    x.k.mul_(sigma);
    check(x, "σ=" + std::to_string(sigma));
    Call y = call(n, {score_for("additive_keras", n), masks::causal()});
    y.k.mul_(sigma);
    check(y, "keys σ=" + std::to_string(sigma));
  }
  for (const float huge : {19.0f, 42.0f, 44.0f, 1e3f, -1e3f, 1e30f, -1e30f}) {
    Call x = call(n, {score_for("additive_keras", n)});
    test::edit<float>(x.q, [&](float* q) { q[40] = huge; });
    check(x, "one query entry " + std::to_string(huge));
    test::edit<float>(x.k, [&](float* k) { k[57] = -huge; });
    check(x, "and one key entry");
  }
}

// ---- memory ------------------------------------------------------------------------------------

struct Poisoned {
  Poisoned() { poison_memory(true); }
  ~Poisoned() { poison_memory(false); }
};

TEST(Memory, NothingThatWasNeverWrittenReachesTheResult) {
  const Sizes n{.B = 2, .H = 4, .Hk = 2, .Lq = 67, .Lk = 131, .Dq = 11, .Dk = 11, .Dv = 7};
  for (const std::string& score : families()) {
    for (const char* mask : {"", "causal+window:30"}) {
      for (const WeightingDef* weighting : weighting_table()) {
        SCOPED_TRACE(score + " " + weighting->name + " " + mask);
        Call x =
            call(n, {score_for(score, n),
                     fovea::mask(mask),
                     {.def = weighting, .numbers = generate::numbers(weighting), .dropout = 0.2f}});
        const Results clean = results(x, Ask::context);
        const Poisoned on;
        expect_same_bits(results(x, Ask::context), clean);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Memory, AResultNeverAskedForItsGradientIsFreed) {
  const Sizes n{.B = 1, .H = 2, .Hk = 2, .Lq = 64, .Lk = 64, .Dq = 32, .Dk = 32, .Dv = 32};
  for (const char* weighting : {"softmax", "sample", "sparsemax"}) {
    for (const bool weights : {false, true}) {
      Call x = call(n, {.mask = masks::causal(), .weighting = fovea::weighting(weighting)});
      make_leaves(x);
      const int64_t before = memory_in_use();
      {
        const Attended a = attend(x.q, x.k, x.v, x.attention, {.weights = weights});
        a.weights();
        a.entropy();
        a.log_sum_exp();
      }
      EXPECT_EQ(memory_in_use(), before) << weighting;
    }
  }
}

// ‖x‖² of these overflows; the cosine is that of shorter ones, and so is every gradient but its
// size.
TEST(Cosine, OfLongVectorsIsThatOfShortOnes) {
  const Sizes n{.B = 1, .H = 2, .Hk = 2, .Lq = 5, .Lk = 7, .Dq = 6, .Dk = 6, .Dv = 4};
  const Call ordinary = call(n, {.score = scores::cosine(Tensor::scalar(3.0f))});
  const Results expected = results(ordinary);
  for (const float length : {1e18f, 1e20f, 3e37f}) {
    SCOPED_TRACE(length);
    Call x = ordinary;
    Tensor some = Tensor::full({1, 1, n.Lq, 1}, 1.0f);  // the others stay short
    some.select(2, 3).fill_(length);
    x.q = x.q * some;
    x.k = x.k * length;
    for (const Plan plan : {Plan::automatic, Plan::reference}) {
      x.want.plan = plan;
      const Results found = results(x);
      for (const char* name : {"context", "weights", "log_sum_exp", "dv of context"}) {
        expect_near(found.at(name), expected.at(name), {1e-4, 1e-5}, name);
      }
      std::vector<float> dk = found.at("dk of context");
      for (float& d : dk) d *= length;
      expect_near(dk, expected.at("dk of context"), {1e-3, 1e-5}, "dk");
    }
  }
}

// uᵀ tanh(b_2) for every pair.
TEST(Mlp, WithoutAFirstLayerIsAConstant) {
  const Sizes n{.B = 1, .H = 2, .Hk = 2, .Lq = 5, .Lk = 7, .Dq = 6, .Dk = 6, .Dv = 4};
  Call x = call(n, {.score = score("mlp", {{"w_1", Tensor::zeros({0, 12})},
                                           {"b_1", Tensor::zeros({0})},
                                           {"w_2", Tensor::zeros({3, 0})},
                                           {"b_2", Tensor::randn({3}, 1)},
                                           {"u", Tensor::randn({3}, 2)}})});
  const Results found = results(x);
  EXPECT_EQ(found.at("weights"), std::vector<float>(2 * 5 * 7, 1.0f / 7));
  x.want.plan = Plan::reference;
  const Results expected = results(x);
  for (const auto& [name, values] : expected) {
    expect_near(found.at(name), values, {1e-4, 1e-5}, name);
  }
}

}  // namespace
}  // namespace fovea::tests
