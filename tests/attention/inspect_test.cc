#include <algorithm>
#include <cmath>
#include <functional>

#include "attention/expect.h"
#include "fovea/ops.h"

// Looking inside a result, and what is said when a call cannot work.
namespace fovea::tests {
namespace {

constexpr Sizes kInspectSizes{
    .B = 2, .H = 4, .Hk = 2, .Lq = 37, .Lk = 45, .Dq = 12, .Dk = 12, .Dv = 10};

// ---- looking -----------------------------------------------------------------------------------

TEST(Weights, OfChosenHeadsAndRowsAreRowsOfAll) {
  const Select picks[] = {{{2}, {}}, {{}, {0, 36}}, {{3, 0}, {20, 1, 20}}, {{1, 1}, {5}}};
  for (const ScoreDef* score : score_table()) {
    for (const char* weighting : {"softmax", "sample", "sparsemax", "sigmoid"}) {
      for (const bool keep : {false, true}) {
        const Call x = call(kInspectSizes, {generate::score(*score, kInspectSizes, 2),
                                            masks::causal(), fovea::weighting(weighting)});
        const Attended a = attend(x.q, x.k, x.v, x.attention, {.weights = keep});
        const Tensor all = a.weights();
        for (const Select& pick : picks) {
          Tensor expected = all;
          const auto take = [&expected](int dim, const std::vector<int64_t>& ids) {
            if (!ids.empty())
              expected = index_select(expected, dim,
                                      Tensor::from_ids(ids, {static_cast<int64_t>(ids.size())}));
          };
          take(1, pick.heads);
          take(2, pick.rows);
          const Tensor found = a.weights(pick);
          ASSERT_EQ(found.shape(), expected.shape());
          expect_near(found.to_vector(), expected.to_vector(), {1e-6, 1e-6},
                      score->name + " " + weighting);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(Weights, OfASelectionHaveTheGradientOfThatSelection) {
  const Select pick{{3, 0}, {20, 1, 20}};
  for (const std::string& score : families()) {
    Call x = call(kInspectSizes, {score_for(score, kInspectSizes), masks::causal()});
    const Leaves leaves = make_leaves(x);
    const Attended a = attend(x.q, x.k, x.v, x.attention);
    const Tensor some = a.weights(pick), d = Tensor::randn(some.shape(), 4);
    Results found, expected;
    add_gradients(some, d, "weights", leaves, found);
    const Tensor all = index_select(index_select(a.weights(), 1, Tensor::from_ids(pick.heads, {2})),
                                    2, Tensor::from_ids(pick.rows, {3}));
    add_gradients(all, d, "weights", leaves, expected);
    expect_near(found, expected, {1e-6, 1e-5}, score);
  }
}

TEST(Top, IsTheWeightsSorted) {
  for (const char* weighting : {"softmax", "entmax15", "sample"}) {
    for (const Select& pick : {Select{}, Select{{2}, {36, 3}}}) {
      const Call x = call(kInspectSizes, {{}, masks::causal(), fovea::weighting(weighting)});
      const Attended a = attend(x.q, x.k, x.v, x.attention);
      const std::vector<float> w = a.weights(pick).to_vector();
      for (const int64_t k : {0, 1, 5, 45}) {
        const TopK top = a.top(k, pick);
        const std::vector<float> weights = top.weights.to_vector();
        const std::vector<int64_t> keys = top.keys.to_ids();
        ASSERT_EQ(weights.size(), w.size() / 45 * k);
        for (size_t row = 0; row < w.size() / 45; ++row) {
          std::vector<float> sorted(w.begin() + row * 45, w.begin() + (row + 1) * 45);
          std::stable_sort(sorted.begin(), sorted.end(), std::greater<>());
          for (int64_t i = 0; i < k; ++i) {
            ASSERT_EQ(weights[row * k + i], sorted[i]) << weighting;
            ASSERT_EQ(w[row * 45 + keys[row * k + i]], sorted[i]) << weighting;
          }
        }
      }
    }
  }
}

TEST(Statistics, AreThoseOfTheWeights) {
  for (const ScoreDef* score : score_table()) {
    const Call x =
        call(kInspectSizes, {generate::score(*score, kInspectSizes, 2), masks::causal()});
    const Attended a = attend(x.q, x.k, x.v, x.attention);
    const std::vector<float> w = a.weights().to_vector(), h = a.entropy().to_vector();
    for (size_t row = 0; row < h.size(); ++row) {
      double entropy = 0;
      for (size_t j = 0; j < 45; ++j)
        entropy -= w[row * 45 + j] > 0 ? w[row * 45 + j] * std::log(w[row * 45 + j]) : 0;
      ASSERT_NEAR(h[row], entropy, 2e-5) << score->name;
    }
  }
  // Scores q·k/√D written out: log Σ e^s.
  Sizes n = kInspectSizes;
  n.Hk = n.H;
  const Call x = call(n);
  const Tensor s = matmul(x.q, x.k.transpose(2, 3)) * (1.0f / std::sqrt(12.0f));
  const Tensor expected = log(sum(exp(s), {3}));
  expect_near(attend(x.q, x.k, x.v).log_sum_exp().to_vector(), expected.to_vector(), {1e-5, 1e-5},
              "log_sum_exp");
}

// The doubly stochastic penalty λ Σ_j (1 − Σ_i α_ij)² of captioning, against the reference given
// the penalty's gradient with respect to the weights.
TEST(Weights, TrainADoublyStochasticPenalty) {
  const Sizes n{.B = 2, .H = 2, .Hk = 2, .Lq = 9, .Lk = 14, .Dq = 6, .Dk = 6, .Dv = 4};
  for (const std::string& score : families()) {
    for (const bool keep : {false, true}) {
      const Call fixed = call(n, {score_for(score, n)});
      Call x = fixed;
      const Leaves leaves = make_leaves(x);
      const Tensor w = attend(x.q, x.k, x.v, x.attention, {.weights = keep}).weights();
      const Tensor missing = 1.0f - sum(w, {2});  // [B,H,Lk]
      Results found;
      add_gradients(sum(square(missing)), Tensor::scalar(1.0f), "penalty", leaves, found);

      const std::vector<float> d = (missing.unsqueeze(2) * -2.0f).expand(w.shape()).to_vector();
      const ReferenceGradients expected = reference_backward(
          {.q = fixed.q, .k = fixed.k, .v = fixed.v, .attention = fixed.attention, .n = n},
          {.weights = {d.begin(), d.end()}});
      for (const auto& [name, g] : expected)
        expect_near(found.at("d" + name + " of penalty"), g, {2e-5, 1e-4}, score + " " + name);
    }
  }
}

TEST(Looking, ChangesNeitherContextNorGradient) {
  Call x = call(kInspectSizes, {{}, masks::causal()});
  const Results alone = results(x, Ask::context);
  const Leaves leaves = make_leaves(x);
  const Attended a = attend(x.q, x.k, x.v, x.attention);
  a.weights();
  a.top(3);
  a.entropy();
  a.log_sum_exp();
  Results r{{"context", a.context.to_vector()}};
  add_gradients(a.context, Tensor::randn(a.context.shape(), 11), "context", leaves, r);
  expect_same_bits(r, alone);
}

// What a look returns stands by itself when the result is gone.
TEST(Looking, OutlivesTheResult) {
  for (const char* weighting : {"softmax", "sparsemax", "entmax15", "sample"}) {
    Call x =
        call(kInspectSizes, {{}, masks::causal() & masks::window(5), fovea::weighting(weighting)});
    const Results expected = results(x);
    const Leaves leaves = make_leaves(x);
    const Tensor entropy = attend(x.q, x.k, x.v, x.attention).entropy();
    const Tensor weights = attend(x.q, x.k, x.v, x.attention).weights();
    std::vector<std::vector<int32_t>> others(
        50, std::vector<int32_t>(kInspectSizes.Lq, -7));  // reuse freed memory
    Results r;
    add_gradients(entropy, Tensor::randn(entropy.shape(), 11), "entropy", leaves, r);
    add_gradients(weights, Tensor::randn(weights.shape(), 11), "weights", leaves, r);
    for (const auto& [name, g] : r) EXPECT_EQ(g, expected.at(name)) << weighting << " " << name;
  }
}

// ---- changes in place --------------------------------------------------------------------------

TEST(ChangesInPlace, BetweenAttendAndBackwardAreNoticed) {
  for (const std::string& score : families()) {
    for (const char* what : {"q", "k", "v", "u", "w", "w_q", "w_k"}) {
      Call x = call(kInspectSizes, {score_for(score, kInspectSizes)});
      for (auto& [name, leaf] : make_leaves(x)) {
        if (name != what) continue;
        const Attended a = attend(x.q, x.k, x.v, x.attention);
        {
          const NoGrad quiet;
          leaf.mul_(2.0f);
        }
        EXPECT_THROW(a.context.backward(Tensor::full(a.context.shape(), 1.0f)), Error)
            << score << " " << what;
      }
    }
  }
}

TEST(ChangesInPlace, OfTheContextOrTheMaskAreNoticed) {
  Tensor allowed = Tensor::from_bools(std::vector<uint8_t>(37 * 45, 1), {37, 45});
  Call x = call(kInspectSizes, {.mask = masks::matrix(allowed)});
  make_leaves(x);
  const auto expect_noticed = [&](const std::function<void(Attended&)>& change) {
    Attended a = attend(x.q, x.k, x.v, x.attention);
    {
      const NoGrad quiet;
      change(a);
    }
    EXPECT_THROW(a.context.backward(Tensor::full(a.context.shape(), 1.0f)), Error);
  };
  expect_noticed([](Attended& a) { a.context.mul_(0.0f); });
  expect_noticed([&](Attended&) { allowed.mutable_data<uint8_t>()[3] = 0; });
}

// Weights on demand are computed from q and k: those of the call, or none.
TEST(ChangesInPlace, BeforeALookAreNoticed) {
  Call x = call(kInspectSizes);
  const Attended a = attend(x.q, x.k, x.v);
  const Attended kept = attend(x.q, x.k, x.v, {}, {.weights = true});
  const std::vector<float> before = kept.weights().to_vector();
  x.q.mul_(2.0f);
  EXPECT_THROW(a.weights(), Error);
  EXPECT_THROW(a.top(2), Error);
  EXPECT_THROW(a.entropy(), Error);
  EXPECT_EQ(kept.weights().to_vector(), before);
}

// ---- what is said ------------------------------------------------------------------------------

void expect_error(const std::function<void()>& f, const std::vector<std::string>& says) {
  try {
    f();
    ADD_FAILURE() << "no error; expected one that says " << says[0];
  } catch (const Error& e) {
    for (const std::string& part : says)
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos)
          << e.what() << "\nsays no " << part;
  }
}

Tensor of(const Shape& shape) { return Tensor::zeros(shape); }

TEST(Errors, NameTheCallTheArgumentWhatWasExpectedAndWhatCame) {
  const Tensor q = of({2, 4, 5, 8}), k = of({2, 2, 7, 8}), v = of({2, 2, 7, 6});
  expect_error([&] { attend(q, of({2, 2, 7, 9}), v); }, {"[attend]", "k has D=9", "q has D=8"});
  expect_error(
      [&] {
        attend(q, of({3, 2, 7, 8}), of({3, 2, 7, 6}));
      },
      {"[attend]", "k has B=3", "q has B=2"});
  expect_error([&] { attend(q, k, of({2, 2, 8, 6})); }, {"[attend]", "v has Lk=8", "k has Lk=7"});
  expect_error([&] { attend(q, k, of({2, 4, 7, 6})); }, {"[attend]", "v has Hk=4", "k has Hk=2"});
  expect_error([&] { attend(q, of({2, 3, 7, 8}), of({2, 3, 7, 6})); }, {"[attend]", "Hk=3", "H=4"});
  expect_error(
      [&] {
        attend(q, of({2, 7, 8}), of({2, 7, 6}));
      },
      {"[attend]", "k has rank 3", "q has rank 4"});
  expect_error([&] { attend(of({8}), of({8}), of({8})); }, {"[attend]", "q is [8]", "rank 2 to 4"});
  expect_error([&] { attend(of({1, 1, 1, 1, 1}), k, v); }, {"[attend]", "q is [1, 1, 1, 1, 1]"});
  expect_error([&] { attend({}, k, v); }, {"[attend]", "q is undefined"});
  expect_error([&] { attend(q, {}, v); }, {"[attend]", "k is undefined"});
  expect_error([&] { attend(q, k, Tensor::arange(3)); }, {"[attend]", "v is i64", "f32"});
}

TEST(Errors, OfMechanismsNameTheParameter) {
  const Tensor q = of({2, 4, 5, 8}), k = of({2, 2, 7, 8}), v = of({2, 2, 7, 6});
  expect_error([&] { attend(q, k, v, {score("additive")}); },
               {"[attend]", "additive's w_q [A,Dq] is missing"});
  expect_error(
      [&] {
        attend(q, k, v, {scores::additive(of({3, 8}), of({4, 8}), of({3}))});
      },
      {"[attend]", "additive's w_k is [4, 8]", "[A,Dk]"});
  expect_error(
      [&] {
        attend(q, k, v, {scores::multiplicative(of({8, 9}))});
      },
      {"multiplicative's w is [8, 9]", "Dk=8"});
  expect_error(
      [&] {
        attend(q, k, v, {scores::location(of({6, 8}))});
      },
      {"location's w_loc is [6, 8]", "Lk=7"});
  expect_error([&] { attend(q, k, v, {.mask = masks::lengths(of({2}))}); },
               {"lengths's lengths is f32", "i64"});
  expect_error(
      [&] {
        attend(q, k, v, {.mask = masks::matrix(of({6, 7}))});
      },
      {"matrix's mask is [6, 7]", "Lq=5"});
  expect_error([&] { attend(q, k, v, {.mask = masks::window(-1)}); }, {"window has width -1"});
  expect_error([&] { attend(q, k, v, {.weighting = weightings::softmax(0.0f)}); },
               {"temperature is 0"});
  expect_error([&] { attend(q, k, v, {.weighting = {.dropout = 1.0f}}); }, {"dropout is 1"});
  Attention a;
  a.score.bias = Bias{of({4, 5, 8}), false};
  expect_error([&] { attend(q, k, v, a); }, {"[attend]", "bias is [4, 5, 8]", "Lk=7"});
  a.score.bias = Bias{of({4, 12}), true};
  expect_error([&] { attend(q, k, v, a); }, {"[attend]", "bias is [4, 12]", "Lq+Lk-1"});
}

TEST(Errors, OfLooksSayWhatThereIs) {
  const Call x = call(kInspectSizes);
  const Attended a = attend(x.q, x.k, x.v);
  expect_error([&] { a.weights({{4}, {}}); }, {"[Attended::weights]", "no head 4", "there are 4"});
  expect_error([&] { a.weights({{-1}, {}}); }, {"no head -1"});
  expect_error([&] { a.weights({{}, {37}}); }, {"no row 37", "there are 37"});
  expect_error([&] { a.top(2, {{}, {40}}); }, {"no row 40"});
  expect_error([&] { a.top(46); }, {"[Attended::top]", "46", "Lk=45"});
  expect_error([&] { a.top(-1); }, {"[Attended::top]", "-1"});
  expect_error([&] { a.chosen(); }, {"[Attended::chosen]", "softmax", "sample"});
  expect_error([&] { a.log_prob(); }, {"[Attended::log_prob]", "softmax"});
}

TEST(Errors, SuggestTheNearestName) {
  expect_error([] { score("additve"); }, {"[score]", "\"additve\"", "did you mean \"additive\""});
  expect_error([] { mask("casual"); }, {"[mask]", "did you mean \"causal\""});
  expect_error([] { weighting("softmin"); }, {"[weighting]", "did you mean \"softmax\""});
  expect_error([] { plan("fussed"); }, {"[plan]", "fussed", "fused"});
}

TEST(Errors, OfAPlanThatCannotSayWhatItWants) {
  const Call x = call(kInspectSizes, {score_for("mlp", kInspectSizes)});
  expect_error([&] { attend(x.q, x.k, x.v, x.attention, {.plan = Plan::fused}); },
               {"[attend]", "plan fused cannot", "dot or an additive form"});
  expect_error([&] { attend(x.q, x.k, x.v, {}, {.plan = Plan::linear}); },
               {"[attend]", "plan linear cannot", "weighting none"});
  const Mask window = masks::local_p(3, of({5, 12}), of({5}));
  expect_error([&] { attend(x.q, x.k, x.v, {.mask = window & window}, {.plan = Plan::fused}); },
               {"plan fused cannot"});
  EXPECT_EQ(attend(x.q, x.k, x.v, {.mask = window & window}).plan(), Plan::reference);
}

}  // namespace
}  // namespace fovea::tests
