#include "train/meter.h"

#include <gtest/gtest.h>

namespace fovea::train {
namespace {

// A thousand steps in all; half of them done at `first` seconds each, then some at `then`.
double left(double first, double then) {
  Meter meter;
  const auto steps = [&](int n, double seconds) {
    for (int i = 0; i < n; ++i) meter.add({.share = 0.001, .seconds = seconds});
  };
  steps(500, first);
  steps(100, then);
  return meter.seconds_left(0.4);
}

TEST(Meter, TheTimeLeftIsThatOfThePresentSpeed) {
  EXPECT_NEAR(left(0.1, 0.1), 40, 0.1);
  EXPECT_NEAR(left(0.1, 1), 400, 10);
  EXPECT_NEAR(left(1, 0.2), 80, 10);
  EXPECT_EQ(Meter().seconds_left(1), -1);
}

TEST(Meter, LossAndSpeedAreThoseOfTheLatestSteps) {
  Meter meter;
  for (int i = 0; i < 200; ++i) meter.add({.total = 50, .count = 10, .seconds = 1});
  for (int i = 0; i < 200; ++i) meter.add({.total = 30, .count = 10, .seconds = 0.5});
  EXPECT_NEAR(meter.loss(), 3, 0.01);
  EXPECT_NEAR(meter.units_per_second(), 20, 0.1);
}

}  // namespace
}  // namespace fovea::train
