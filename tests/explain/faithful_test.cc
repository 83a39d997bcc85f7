#include "fovea/faithful.h"

#include <gtest/gtest.h>

#include <cmath>

#include "fovea/ops.h"

namespace fovea::explain {
namespace {

using models::Intervention;

constexpr int64_t kInputs = 6;
const double kFarthest = std::log(2.0);

// One look at values: p(1) = σ(Σ_j a_j v_j), a = softmax of given scores.
LookAt looking_at(const Tensor& scores, const Tensor& values) {
  return [=](const Intervention& how) {
    const Tensor own = softmax(scores).reshape({1, 1, kInputs});
    const auto permitted = [] {
      return Tensor::from_bools(std::vector<uint8_t>(kInputs, 1), {1, 1, kInputs});
    };
    const Tensor used = how ? how({.weights = own, .t = 0, .permitted = permitted}) : own;
    const Tensor y = sum(used.reshape({1, kInputs}) * values, {1});
    return Seen{log_softmax(stack({y * 0.0f, y}, 1)), used.reshape({1, kInputs})};
  };
}

const Tensor kPeak = Tensor::from({0, 0, 5, 0, 0, 0}, {1, kInputs});

TEST(Attack, GoesFarWhereWeightsDoNotMatter) {
  const LookAt same = looking_at(kPeak, Tensor::full({1, kInputs}, 0.7f));
  const Attacked found = attack(same);
  ASSERT_EQ(found.distance.size(), 1u);
  EXPECT_GT(found.distance[0], 0.8 * kFarthest);
  EXPECT_LE(found.change[0], 0.01);
}

TEST(Attack, StaysNearWhereEachInputSaysSomethingElse) {
  // Only the third says 3: to say it again, one must look there.
  const LookAt one = looking_at(kPeak, Tensor::from({0, 0, 3, 0, 0, 0}, {1, kInputs}));
  const Attacked found = attack(one);
  EXPECT_LT(found.distance[0], 0.1);
  EXPECT_LE(found.change[0], 0.01);
}

TEST(Attack, FindsTheOtherInputThatSaysTheSame) {
  const LookAt two = looking_at(kPeak, Tensor::from({0, 0, 3, 0, 3, 0}, {1, kInputs}));
  EXPECT_GT(attack(two).distance[0], 0.6 * kFarthest);
}

// log p(1) of inputs x [R,S,1] that are both score and value, in a model that looks at the largest.
Tensor log_p(const Tensor& rows, const Tensor& weights) {
  const Tensor y = sum(weights * rows.squeeze(2), {1});
  return log_softmax(stack({y * 0.0f, y}, 1)).slice(1, 1, 2);
}

TEST(Faithful, AgreesWhereWhatIsLookedAtIsWhatCounts) {
  const Tensor x = Tensor::from({0.1f, 0.2f, 2.0f, 0.4f, 1.0f, 0.6f}, {kInputs, 1});
  const Tensor flat = x.reshape({1, kInputs});
  Looking m{.look = looking_at(flat, flat), .x = x, .blank = Tensor::zeros({1})};
  m.outputs = [](const Tensor& rows) { return log_p(rows, softmax(rows.squeeze(2))); };
  m.held = [](const Tensor& rows) { return log_p(rows, softmax(rows.squeeze(2)).detach()); };
  const std::vector<Faithful> found = faithful(m);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_DOUBLE_EQ(found[0].tau_gradient, 1.0);
  EXPECT_GT(found[0].tau_left_out, 0.6);
  EXPECT_GT(found[0].permuted, 0.0);
  EXPECT_GT(found[0].uniform, 0.05);
  EXPECT_NEAR(found[0].largest, 0.45, 0.1);
  EXPECT_EQ(found[0].inputs, kInputs);
}

}  // namespace
}  // namespace fovea::explain
