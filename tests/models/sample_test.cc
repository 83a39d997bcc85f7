#include "fovea/sample.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/errors.h"

namespace fovea::models {
namespace {

using test::error_of;

const std::vector<float> kLogits = {0.0f, 2.0f, 1.0f, -1.0f, 2.0f};

// How often each token comes of evenly spread numbers.
std::vector<double> shares(const SampleConfig& c, const std::vector<int64_t>& never = {}) {
  constexpr int kDraws = 20000;
  std::vector<double> n(kLogits.size());
  for (int i = 0; i < kDraws; ++i) {
    n[static_cast<size_t>(sample(kLogits, c, (i + 0.5) / kDraws, never).token)] += 1.0 / kDraws;
  }
  return n;
}

TEST(Sample, DrawsByProbability) {
  for (const float temperature : {0.5f, 1.0f, 3.0f}) {
    double sum = 0;
    for (const float x : kLogits) sum += std::exp(x / temperature);
    const auto found = shares({.temperature = temperature});
    for (size_t i = 0; i < kLogits.size(); ++i) {
      EXPECT_NEAR(found[i], std::exp(kLogits[i] / temperature) / sum, 1e-3);
    }
  }
}

TEST(Sample, ColdIsTheLikeliestAndOfEqualsTheFirst) {
  for (const double u : {0.0, 0.5, 0.999}) {
    EXPECT_EQ(sample(kLogits, {.temperature = 0.0f}, u).token, 1);
  }
  EXPECT_EQ(sample(kLogits, {.temperature = 0.0f}, 0.5, std::vector<int64_t>{1}).token, 4);
}

TEST(Sample, CutsOff) {
  const auto two = shares({.top_k = 2});
  EXPECT_NEAR(two[1], 0.5, 1e-3);
  EXPECT_NEAR(two[4], 0.5, 1e-3);
  EXPECT_EQ(shares({.top_k = 100}), shares({}));
  // Both of the likeliest are needed for 60 %.
  const auto most = shares({.top_p = 0.6f});
  EXPECT_NEAR(most[1] + most[4], 1.0, 1e-9);
  EXPECT_NEAR(shares({.top_p = 1e-6f})[1], 1.0, 1e-9);
  EXPECT_EQ(shares({}, {1, 4})[1], 0.0);
}

TEST(Sample, SaysTheModelsOwnProbability) {
  double sum = 0;
  for (const float x : kLogits) sum += std::exp(x);
  const Sampled s = sample(kLogits, {.temperature = 0.3f, .top_k = 1}, 0.1);
  EXPECT_NEAR(s.log_p, std::log(std::exp(2.0) / sum), 1e-6);
}

TEST(Sample, RefusesWhatIsNone) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(error_of([&] { sample(kLogits, {.temperature = nan}, 0); }),
            "[sample] temperature must be in [0, 1000], found nan");
  EXPECT_EQ(error_of([&] { sample(kLogits, {.top_p = 0.0f}, 0); }),
            "[sample] top_p must be above 0 and at most 1, found 0");
  EXPECT_EQ(error_of([&] {
              sample(std::vector<float>{1.0f, nan}, {}, 0);
            }),
            "[sample] the logit of token 1 is nan");
  EXPECT_EQ(error_of([&] {
              sample(kLogits, {}, 0, std::vector<int64_t>{0, 1, 2, 3, 4});
            }),
            "[sample] there is no token to draw");
}

}  // namespace
}  // namespace fovea::models
