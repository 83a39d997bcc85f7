#include "team/estimate.h"

#include <gtest/gtest.h>

#include <cmath>

namespace fovea::team::tests {
namespace {

// 10⁸ weights, 16,384 tokens a machine at 3 TFLOP/s.
Work large() {
  return {.seconds = 6e8 * 16384 / 3e12, .weights = 100'000'000, .kept = 8, .shared = 8};
}

// By hand: 3.277 s of computing; 9/10 of 800 MB over 1.25 GB/s is 0.576 s; 2·9·96 messages of 30 µs
// are 0.052 s; 1 % of 3.277 s times √(2 ln 10) is 0.070 s.
TEST(Estimate, of_ten_machines_is_what_the_formula_gives_by_hand) {
  const Estimate e = estimate(large(), {}, {}, 10);
  EXPECT_NEAR(e.step_seconds, 3.2768 + 0.5760 + 0.0518 + 0.0703, 1e-3);
  EXPECT_NEAR(e.traffic, 720e6, 1);
  EXPECT_NEAR(e.memory, 1e8 * 8.8, 1);
  EXPECT_NEAR(e.failure_hours, 630, 1e-9);
  // 1.2 GB in 2.4 s: √(2·2.4·630·3600)
  EXPECT_NEAR(e.save_seconds, std::sqrt(2 * 2.4 * 630 * 3600), 1e-6);
  EXPECT_NEAR(e.efficiency, 3.2768 / 3.9749 / (1 + 2 * 2.4 / e.save_seconds + 60 / 2.268e6), 1e-4);
}

TEST(Estimate, of_one_machine_sends_nothing) {
  const Estimate e = estimate(large(), {}, {}, 1);
  EXPECT_EQ(e.traffic, 0);
  EXPECT_EQ(e.step_seconds, large().seconds);
  EXPECT_GT(e.efficiency, 0.999);
}

TEST(Estimate, falls_with_machines_and_rises_with_the_network) {
  double before = 1;
  for (const int64_t count : {1, 10, 100, 1000, 10000}) {
    const Estimate slow = estimate(large(), {}, {}, count);
    const Estimate fast = estimate(large(), {12.5e9, 5e-6}, {}, count);
    EXPECT_LE(slow.efficiency, before);
    EXPECT_GE(fast.efficiency, slow.efficiency);
    before = slow.efficiency;
  }
  EXPECT_NEAR(before, 0.66, 0.01);  // failures every 38 minutes
}

}  // namespace
}  // namespace fovea::team::tests
