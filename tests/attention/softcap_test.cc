#include <algorithm>

#include "attention/expect.h"
#include "fovea/memory.h"
#include "fovea/ops.h"

// Scores that level off at ±c, where the kernels have ways of their own: few keys, few queries, one
// query, wide values, several blocks. tests/attention/attend_test.cc goes through the mechanisms.
namespace fovea::tests {
namespace {

constexpr generate::Heads kSoftcapHeads[] = {{2, 1, 19, 64, 8, 8},    {2, 2, 70, 33, 16, 16},
                                             {1, 1, 10, 40, 32, 256}, {1, 1, 70, 600, 9, 10},
                                             {4, 2, 1, 1030, 32, 32}, {4, 1, 2, 100, 16, 16}};

TEST(Softcap, IsThatOfTheReferenceInEveryShape) {
  for (const generate::Heads& s : kSoftcapHeads) {
    const Sizes n = sizes(s);
    for (const char* score : {"scaled_dot", "additive_keras"}) {
      for (const char* mask : {"", "causal", "window:200,3"}) {
        SCOPED_TRACE(std::string(score) + " " + mask + " Lq=" + std::to_string(s.Lq));
        Call x = call(n, {score_for(score, n), fovea::mask(mask), weightings::softmax(1.3f)});
        x.attention.score.softcap = 0.9f;
        const auto expected = reference_results(x);
        on_every_isa([&](const std::string&) {
          expect_near(results(x), expected, {1e-5, 1.3e-6}, {2e-5, 1e-4}, "");
        });
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Softcap, FarAboveTheScoresIsNone) {
  const Sizes n = sizes(kSoftcapHeads[1]);
  for (const std::string& score : families()) {
    Call x = call(n, {score_for(score, n), masks::causal()});
    const Results plain = results(x);
    x.attention.score.softcap = 1e5f;
    expect_near(results(x), plain, {5e-6, 5e-6}, {2e-5, 1e-5}, score);
  }
}

// c·tanh(s/c) is c at most: weights differ by no more than e^{2c}, and a huge score by no more than
// a large one.
TEST(Softcap, BoundsTheWeights) {
  const Sizes n{.B = 1, .H = 2, .Hk = 1, .Lq = 17, .Lk = 40, .Dq = 6, .Dk = 6, .Dv = 5};
  for (const float amplitude : {1.0f, 100.0f, 1e18f, 1e30f}) {
    Call x = call(n, {scores::dot()});
    x.q = x.q * amplitude;
    x.k = x.k * amplitude;  // at 1e30 every product is beyond floats
    x.attention.score.softcap = 2.0f;
    on_every_isa([&](const std::string&) {
      const Results r = results(x, Ask::everything);
      const std::vector<float>& w = r.at("weights");
      for (size_t i = 0; i < w.size(); i += n.Lk) {
        const auto [least, most] = std::minmax_element(w.begin() + i, w.begin() + i + n.Lk);
        if (amplitude == 1e30f && std::isnan(*least)) continue;  // ∞ − ∞ among the products
        EXPECT_LE(*most / *least, std::exp(4.0f) * 1.0001f);
      }
      if (amplitude < 1e30f) {
        for (const auto& [name, values] : r) EXPECT_TRUE(all_finite(values)) << name;
      }
    });
  }
}

// Scores of +∞ are c, where the slope is 0: an infinite query shows in no gradient.
TEST(Softcap, HoldsAnInfiniteQuery) {
  const Sizes n{.B = 1, .H = 1, .Hk = 1, .Lq = 9, .Lk = 40, .Dq = 6, .Dk = 6, .Dv = 5};
  Call x = call(n, {scores::dot()});
  x.k = Tensor::rand(x.k.shape(), 7) + Tensor::scalar(0.1f);
  std::vector<float> q = x.q.to_vector();
  std::fill_n(q.begin() + 4 * n.Dq, n.Dq, kInf);
  x.q = Tensor::from(q, x.q.shape());
  x.attention.score.softcap = 1.5f;
  x.want.plan = Plan::reference;
  const Results expected = results(x);
  for (const auto& [name, values] : expected) EXPECT_TRUE(all_finite(values)) << name;
  for (const Plan plan : {Plan::fused, Plan::composed}) {
    x.want.plan = plan;
    on_every_isa([&](const std::string&) {
      expect_near(results(x), expected, {1e-5, 1.3e-6}, {2e-5, 1e-4}, name_of(plan));
    });
  }
}

TEST(Softcap, KeepsTheLinearPlanAway) {
  const Sizes n{.B = 1, .H = 1, .Hk = 1, .Lq = 200, .Lk = 200, .Dq = 4, .Dk = 4, .Dv = 4};
  Call x = call(n, {scores::dot(), {}, weightings::none()});
  const Plan plain = test::test_device().empty() ? Plan::linear : Plan::fused;
  EXPECT_EQ(attend(x.q, x.k, x.v, x.attention).plan(), plain);
  x.attention.score.softcap = 1.0f;
  EXPECT_EQ(attend(x.q, x.k, x.v, x.attention).plan(), Plan::fused);
  EXPECT_THROW(attend(x.q, x.k, x.v, x.attention, {.plan = Plan::linear}), Error);
}

TEST(Softcap, OfAMemoryIsThatOfACall) {
  const Tensor q = Tensor::randn({3, 8}, 1), k = Tensor::randn({3, 21, 8}, 2);
  const Tensor v = Tensor::randn({3, 21, 5}, 3);
  Score score = scores::scaled_dot();
  score.softcap = 0.5f;
  Memory memory(k, v, score);
  const MemoryStep step = memory(q);
  EXPECT_FALSE(step.deferred());
  const Attended a = attend(q.unsqueeze(1), k, v, {.score = score});
  EXPECT_EQ(step.context.to_vector(), a.context.to_vector());
}

TEST(Softcap, MustBeAboveZeroAndFinite) {
  const Call x = call(sizes(kSoftcapHeads[1]));
  for (const float bad : {0.0f, -1.0f, kInf, kNan}) {
    Attention a;
    a.score.softcap = bad;
    EXPECT_THROW(attend(x.q, x.k, x.v, a), Error) << bad;
  }
}

}  // namespace
}  // namespace fovea::tests
