#include "attention/pairs.h"

#include "attention/expect.h"
#include "core/allocator.h"
#include "fovea/ops.h"

// The composed plan goes over a call part by part.
namespace fovea::tests {
namespace {

struct PairsShape {
  const char* what;
  Sizes n;
};

// Several entries a part, several groups of heads, heads of one group, rows of one head.
const std::vector<PairsShape> kPairsShapes = {
    {"entries", {.B = 9, .H = 2, .Hk = 2, .Lq = 30, .Lk = 120, .Dq = 3, .Dk = 3, .Dv = 2}},
    {"groups", {.B = 2, .H = 6, .Hk = 3, .Lq = 50, .Lk = 130, .Dq = 3, .Dk = 3, .Dv = 2}},
    {"heads", {.B = 1, .H = 4, .Hk = 2, .Lq = 90, .Lk = 110, .Dq = 3, .Dk = 3, .Dv = 2}},
    {"rows", {.B = 1, .H = 2, .Hk = 1, .Lq = 37, .Lk = 900, .Dq = 3, .Dk = 3, .Dv = 2}},
    {"a row", {.B = 1, .H = 1, .Hk = 1, .Lq = 3, .Lk = 20'000, .Dq = 2, .Dk = 2, .Dv = 1}},
};

TEST(Parts, CoverEveryRowOnceWithinTheirBounds) {
  for (const auto& [what, n] : kPairsShapes) {
    for (const Mask& mask : {Mask{}, masks::window(4)}) {
      const LoweredMask lowered = lower_mask({.mask = mask}, n, {});
      std::vector<int> seen(n.B * n.H * n.Lq);
      const std::vector<PairsPart> parts = parts_of(lowered, n);
      for (const PairsPart& x : parts) {
        EXPECT_TRUE(x.B == 1 || (x.H == n.H && x.Lq == n.Lq)) << what;
        EXPECT_TRUE(x.H == 1 || x.Lq == n.Lq) << what;
        int64_t pairs = 0;
        each_permitted(lowered, n, x, [&](int64_t, int64_t, int64_t, int64_t) { ++pairs; });
        EXPECT_TRUE(pairs <= kPartPairs || x.B * x.H * x.Lq == 1) << what << " " << pairs;
        for (int64_t b = x.b; b < x.b + x.B; ++b)
          for (int64_t h = x.h; h < x.h + x.H; ++h)
            for (int64_t i = x.i; i < x.i + x.Lq; ++i) ++seen[(b * n.H + h) * n.Lq + i];
      }
      EXPECT_EQ(seen, std::vector<int>(seen.size(), 1)) << what;
      if (mask.terms.empty()) {
        EXPECT_GT(parts.size(), 1u) << what;
      }
    }
  }
}

// Draws and dropped weights are the same by any plan: they go by the row's place in the call.
TEST(Parts, GiveWhatTheFusedPlanGives) {
  for (const auto& [what, n] : kPairsShapes) {
    std::vector<Attention> all;
    for (const WeightingDef* weighting : weighting_table()) {
      all.push_back({.score = score_for("additive", n),
                     .weighting = {.def = weighting, .numbers = generate::numbers(weighting)}});
      all.back().weighting.dropout = 0.3f;
      all.back().weighting.seed = 4;
    }
    all.push_back({.score = score_for("scaled_dot", n), .mask = masks::causal()});
    all.push_back(
        {.mask = generate::mask(*masks::local_p(1, {}, {}).terms[0].def, n, 5, {.width = 9})});
    all.back().score.bias = Bias{Tensor::randn({n.H, 1, n.Lk}, 6), false};
    all.push_back({});
    all.back().score.bias = Bias{Tensor::randn({n.H, n.Lq + n.Lk - 1}, 6), true};
    for (size_t i = 0; i < all.size(); ++i) {
      Call x = call(n, all[i]);
      x.want.plan = Plan::fused;
      const Results fused = results(x);
      x.want.plan = Plan::composed;
      // Sparse entropies are steep where a weight is small.
      expect_near(results(x), fused, {2e-5, 2e-4}, {1e-3, 1e-3},
                  std::string(what) + " " + std::to_string(i));
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Parts, AnswerForChosenHeadsAndRows) {
  const Sizes n = kPairsShapes[3].n;
  const Call x = call(n, {.score = score_for("mlp", n)});
  const Attended a = attend(x.q, x.k, x.v, x.attention);
  ASSERT_EQ(a.plan(), Plan::composed);
  const std::vector<int64_t> rows{3, 4, 5, 30, 2};
  const Tensor all = a.weights(), some = a.weights({{1}, rows});
  for (size_t r = 0; r < rows.size(); ++r) {
    expect_near(some.select(2, static_cast<int64_t>(r)).to_vector(),
                all.select(1, 1).select(1, rows[r]).to_vector(), {0, 0}, "row");
  }
}

TEST(Parts, AreTheSameAtAnyNumberOfThreads) {
  const int before = threads();
  const Sizes n = kPairsShapes[2].n;
  const Call x = call(n, {.score = score_for("mlp", n), .mask = masks::causal()});
  set_threads(1);
  const Results one = results(x);
  set_threads(3);
  expect_same_bits(results(x), one);
  set_threads(before);
}

// A pair of width 64 with its gradients takes about 4 KiB: all half a million would take 2 GiB.
TEST(Parts, TakeNoMoreMemoryThanAFewThousandPairs) {
  const Sizes n{.B = 1, .H = 2, .Hk = 2, .Lq = 512, .Lk = 512, .Dq = 64, .Dk = 64, .Dv = 64};
  Call x = call(n, {.score = generate::score(score_named("mlp"), n, 1, {.A = 64, .A2 = 64})});
  const Leaves leaves = make_leaves(x);
  const Tensor d = Tensor::randn({n.B, n.H, n.Lq, n.Dv}, 2);
  const int64_t before = memory_in_use();
  reset_memory_peak();
  attend(x.q, x.k, x.v, x.attention).context.backward(d);
  EXPECT_LT(memory_peak() - before, int64_t{128} << 20);
}

}  // namespace
}  // namespace fovea::tests
