#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "small.h"

// Linear attention in training, where weights are dropped: every task that has it.
namespace fovea::tasks {
namespace {

bool finite(const Tensor& t) {
  for (const float x : t.to_vector()) {
    if (!std::isfinite(x)) return false;
  }
  return true;
}

TEST(LinearAttention, LearnsWithDropoutInEveryTask) {
  for (const std::string name : {"lm", "translate", "documents"}) {
    SCOPED_TRACE(name);
    const Task& t = task(name);
    Given typed = small_training(t, 1);
    typed.insert({{"linear", "true"}, {"dropout", "0.5"}});
    if (name != "lm") typed["model"] = "transformer";
    const auto run = t.begin(*config_from(t, typed), nullptr);
    const train::Learner learner = run->learner({});
    for (uint64_t seed = 0; seed < 10; ++seed) {
      const Tensor loss = learner.loss(std::vector<int64_t>{0, 1, 2}, seed).loss;
      ASSERT_TRUE(finite(loss)) << seed;
      loss.backward();
    }
    for (const auto& [parameter, weight] : learner.parameters) {
      EXPECT_TRUE(!weight.grad() || finite(weight.grad())) << parameter;
    }
  }
}

}  // namespace
}  // namespace fovea::tasks
