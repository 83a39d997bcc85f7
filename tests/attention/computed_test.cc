#include "attention/expect.h"

// A result of attend() had again from what it computed: nothing else is kept between the forward
// and the backward pass of whoever has a tape of its own.
namespace fovea::tests {
namespace {

constexpr Sizes kSmall = {.B = 2, .H = 4, .Hk = 2, .Lq = 5, .Lk = 7, .Dq = 6, .Dk = 6, .Dv = 3};

// The call, run and let go, then had again.
Attended again(const Call& c) {
  const Computed computed = [&] {
    const NoGrad quiet;
    return attend(c.q, c.k, c.v, c.attention, c.want).computed();
  }();
  return attended(c.q, c.k, c.v, c.attention, computed, c.want);
}

// A GPU multiplies 16 bits of values and gradients, and asked for everything the host does it all:
// what differs is the rounding of v, of which gradients of scores are differences. By that rounding
// alone, dq of elu_dot is off by 6 times the tolerance in the median and by up to 83 times in 4000
// draws of these sizes; `slack` knows 16.
void expect_equal(const Call& c, const std::string& what) {
  const double off = test::on_gpu() ? 5.0 : 1.0;
  expect_near(results(c, Ask::everything, again), results(c), {1e-6, 1e-6},
              {off * 2e-6, off * 1e-5}, what);
}

TEST(Computed, EveryScoreMaskAndWeighting) {
  uint64_t seed = 100;
  for (const ScoreDef* score : score_table()) {
    for (const MaskDef* mask : mask_table()) {
      for (const WeightingDef* weighting : weighting_table()) {
        Attention choice{generate::score(*score, kSmall, ++seed),
                         generate::mask(*mask, kSmall, ++seed)};
        choice.weighting = {.def = weighting,
                            .numbers = generate::numbers(weighting),
                            .temperature = 0.7f,
                            .seed = 5};
        expect_equal(call(kSmall, choice), score->name + " " + mask->name + " " + weighting->name);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Computed, DropoutBiasCapAndSink) {
  Call c = call(kSmall);
  c.attention.score.softcap = 2.0f;
  c.attention.score.bias = Bias{.table = Tensor::randn({4, 5, 7}, 21)};
  c.attention.weighting = weightings::softmax(1.3f, Tensor::randn({4}, 22));
  c.attention.weighting.dropout = 0.3f;
  expect_equal(c, "softmax");
}

TEST(Computed, EveryPlan) {
  Call c = call(kSmall, {scores::dot(), masks::causal(), weightings::none()});
  for (const std::string& name : list_plans()) {
    c.want.plan = plan(name);
    expect_equal(c, name);
  }
}

TEST(Computed, RanksTwoAndThree) {
  const Tensor q = Tensor::randn({3, 4, 6}, 1), k = Tensor::randn({3, 5, 6}, 2);
  Call c{.q = q, .k = k, .v = Tensor::randn({3, 5, 2}, 3)};
  c.attention.weighting = weightings::gumbel(9);
  expect_equal(c, "rank 3");
  EXPECT_EQ(again(c).computed().stat.shape(), (Shape{3, 4}));
  c = {.q = q.select(0, 0), .k = k.select(0, 0), .v = c.v.select(0, 0), .attention = c.attention};
  expect_equal(c, "rank 2");
  EXPECT_EQ(again(c).computed().chosen.shape(), (Shape{4}));
}

TEST(Computed, NoKeys) {
  Sizes none = kSmall;
  none.Lk = 0;
  Call c = call(none);
  c.attention.weighting = weightings::softmax(1.0f, Tensor::randn({4}, 22));
  expect_equal(c, "Lk=0");
}

TEST(Computed, WhatDoesNotFitIsRefused) {
  const Call c = call(kSmall, {{}, {}, weightings::argmax()});
  const Computed right = attend(c.q, c.k, c.v, c.attention).computed();
  const auto refused = [&](auto change, const std::string& message) {
    Computed wrong = right;
    change(wrong);
    try {
      attended(c.q, c.k, c.v, c.attention, wrong);
      ADD_FAILURE() << message;
    } catch (const Error& e) {
      EXPECT_EQ(e.what(), "[attended] " + message);
    }
  };
  refused([](Computed& x) { x.context = x.context.slice(3, 0, 2); },
          "context is [2, 4, 5, 2] f32, expected [2, 4, 5, 3] f32");
  refused([](Computed& x) { x.stat = {}; }, "stat is undefined, expected [2, 4, 5] f32");
  refused([](Computed& x) { x.chosen = x.stat; },
          "chosen is [2, 4, 5] f32, expected [2, 4, 5] i64");
  refused(
      [](Computed& x) {
        x.chosen = Tensor::from_ids(std::vector<int64_t>(40, 7), {2, 4, 5});
      },
      "chosen has key 7, expected -1 to Lk-1=6");
}

}  // namespace
}  // namespace fovea::tests
