#include "attention/plan.h"

#include <cstdlib>

#include "attention/expect.h"
#include "tests/host.h"
#include "tests/on_device.h"

namespace fovea::tests {
namespace {

const Sizes kLong{.B = 1, .H = 2, .Hk = 1, .Lq = 200, .Lk = 200, .Dq = 4, .Dk = 4, .Dv = 4};

TEST(Plans, AreChosenByTheRequestAndNothingElse) {
  setenv("FOVEA_PLAN", "reference", 1);
  EXPECT_EQ(choose_plan(request_for({}, kLong), Plan::automatic), Plan::fused);
  EXPECT_EQ(choose_plan(request_for({.weighting = weightings::none()}, kLong), Plan::automatic),
            Plan::linear);
  unsetenv("FOVEA_PLAN");
}

// What weighs by scores as they are: linear, and on devices, where that has no kernel, fused.
Plan plain_plan() { return test::test_device().empty() ? Plan::linear : Plan::fused; }

// Sums by associativity do not show a score that overflows; the plan computes scores then.
TEST(Plans, StayWhateverTheValues) {
  for (const Mask& mask : {Mask{}, masks::causal()}) {
    Call x = call(kLong, {scores::dot(), mask, weightings::none()});
    test::edit<float>(x.q, [](float* q) { q[kLong.Dq * 17] = 1e25f; });
    test::edit<float>(x.k, [](float* k) { k[kLong.Dk * 31] = -1e25f; });
    EXPECT_EQ(attend(x.q, x.k, x.v, x.attention).plan(), plain_plan());
    const Results linear = results(x);
    x.want.plan = Plan::fused;
    expect_same_bits(linear, results(x));
  }
}

}  // namespace
}  // namespace fovea::tests
