#include "image/resize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "errors.h"

namespace fovea::image {
namespace {

using test::error_of;
using test::has;

Image ramp(int64_t height, int64_t width, int64_t channels = 1) {
  Image x{height, width, channels, {}};
  for (int64_t i = 0; i < height * width * channels; ++i) {
    x.pixels.push_back(static_cast<float>(i * 29 % 101) / 100.0f);
  }
  return x;
}

double mean_of(const Image& x) {
  return std::accumulate(x.pixels.begin(), x.pixels.end(), 0.0) / double(x.pixels.size());
}

TEST(Resized, OneColourStaysThatColour) {
  const Image x{3, 5, 3, std::vector<float>(45, 0.3f)};
  for (const auto& [height, width] : {std::pair{1, 1}, {2, 9}, {7, 4}, {30, 50}}) {
    const Image y = resized(x, height, width);
    ASSERT_EQ(static_cast<int64_t>(y.pixels.size()), height * width * 3);
    for (const float v : y.pixels) EXPECT_NEAR(v, 0.3f, 1e-6f);
  }
}

TEST(Resized, SmallerIsTheMeanOfTheArea) {
  const Image y = resized({2, 4, 1, {0, 1, 2, 3, 4, 5, 6, 7}}, 1, 2);
  EXPECT_FLOAT_EQ(y.pixels[0], 2.5f);
  EXPECT_FLOAT_EQ(y.pixels[1], 4.5f);
  const Image uneven = resized({1, 3, 1, {0, 3, 6}}, 1, 2);
  EXPECT_NEAR(uneven.pixels[0], 1.0f, 1e-6f);  // (0 + 3/2) / 1.5
  EXPECT_NEAR(uneven.pixels[1], 5.0f, 1e-6f);
  const Image x = ramp(17, 23, 3);
  EXPECT_NEAR(mean_of(resized(x, 5, 7)), mean_of(x), 1e-5);
}

TEST(Resized, LargerIsStraightBetweenPixels) {
  const Image y = resized({1, 2, 1, {0, 4}}, 1, 4);
  EXPECT_EQ(y.pixels, (std::vector<float>{0, 1, 3, 4}));
  EXPECT_EQ(resized(ramp(4, 6, 3), 4, 6).pixels, ramp(4, 6, 3).pixels);
}

TEST(Resized, RefusesNothingness) {
  EXPECT_TRUE(has(error_of([] { resized(ramp(2, 2), 0, 3); }), "sides must be 1 or more"));
}

TEST(Cropped, IsThePartAskedFor) {
  const Image y = cropped({2, 3, 1, {0, 1, 2, 3, 4, 5}}, {.y = 0, .x = 1, .height = 2, .width = 2});
  EXPECT_EQ(y.pixels, (std::vector<float>{1, 2, 4, 5}));
  EXPECT_TRUE(has(error_of([] { cropped(ramp(2, 2), {1, 1, 2, 1}); }), "do not lie inside 2 × 2"));
  EXPECT_TRUE(has(error_of([] { cropped(ramp(2, 2), {-1, 0, 1, 1}); }), "do not lie inside"));
}

TEST(Fitted, CoversTheSizeAndKeepsTheMiddle) {
  const Image y = fitted({1, 4, 1, {0, 1, 2, 3}}, 1, 2);
  EXPECT_EQ(y.pixels, (std::vector<float>{1, 2}));
  for (const auto& [height, width] : {std::pair{9, 4}, {3, 30}, {64, 64}, {1, 1}}) {
    const Image z = fitted(ramp(13, 7, 3), height, width);
    EXPECT_EQ(z.height, height);
    EXPECT_EQ(z.width, width);
    EXPECT_EQ(static_cast<int64_t>(z.pixels.size()), height * width * 3);
  }
}

TEST(Turned, ClockwiseAroundTheMiddle) {
  const auto expect_near = [](const Image& found, const std::vector<float>& expected) {
    ASSERT_EQ(found.pixels.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found.pixels[i], expected[i], 1e-6);
  };
  const Image x = ramp(7, 5, 3);
  expect_near(turned(x, 0), x.pixels);
  expect_near(turned(turned(x, 180), 180), x.pixels);
  expect_near(turned({2, 2, 1, {1, 2, 3, 4}}, 90), {3, 1, 4, 2});
  expect_near(turned({3, 3, 1, {1, 2, 3, 4, 5, 6, 7, 8, 9}}, -90), {3, 6, 9, 2, 5, 8, 1, 4, 7});
  // Twice as large: a pixel lies half a pixel from those beside it, and beyond the edge is the
  // edge.
  expect_near(turned({1, 3, 1, {0, 2, 8}}, 0, 2), {1, 2, 5});
  expect_near(turned({1, 3, 1, {0, 2, 8}}, 0, 0.5), {0, 2, 8});
  expect_near(turned({1, 1, 1, {7}}, 33, 1.3), {7});
}

TEST(Augmented, TurnsAndZoomsUpToWhatIsSaid) {
  // A line through the middle, whose direction is that of its second moments.
  Image x{41, 41, 1, std::vector<float>(41 * 41)};
  for (size_t i = 0; i < 41; ++i) x.pixels[i * 41 + 20] = 1.0f;
  double least = 90, most = -90;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Image y = augmented(x, {.turn = 30}, seed);
    double yy = 0, xx = 0, xy = 0;
    for (int64_t i = 0; i < 41; ++i) {
      for (int64_t j = 0; j < 41; ++j) {
        const double v = static_cast<double>(y.pixels[static_cast<size_t>(i * 41 + j)]);
        const double down = double(i - 20), right = double(j - 20);
        if (down * down + right * right > 15 * 15) continue;  // the edge, repeated
        yy += v * down * down, xx += v * right * right, xy += v * down * right;
      }
    }
    const double angle = -0.5 * std::atan2(2 * xy, yy - xx) * 180 / M_PI;
    least = std::min(least, angle), most = std::max(most, angle);
  }
  EXPECT_NEAR(least, -30, 2);
  EXPECT_NEAR(most, 30, 2);

  // A dark square on white: its area goes with the square of the scale.
  Image square{40, 40, 1, std::vector<float>(1600, 0.0f)};
  for (size_t i = 10; i < 30; ++i) {
    for (size_t j = 10; j < 30; ++j) square.pixels[i * 40 + j] = 1.0f;
  }
  double smallest = 2, largest = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const double scale =
        std::sqrt(mean_of(augmented(square, {.zoom = 0.25}, seed)) / mean_of(square));
    smallest = std::min(smallest, scale), largest = std::max(largest, scale);
  }
  EXPECT_NEAR(smallest, 0.75, 0.02);
  EXPECT_NEAR(largest, 1.25, 0.02);
}

TEST(Augmented, IsAFunctionOfItsSeed) {
  const Image x = ramp(12, 12, 3);
  EXPECT_EQ(mirrored(mirrored(x)).pixels, x.pixels);
  EXPECT_EQ(mirrored({1, 3, 1, {1, 2, 3}}).pixels, (std::vector<float>{3, 2, 1}));
  EXPECT_EQ(augmented(x, {}, 5).pixels, x.pixels);
  const Augmentation all{.mirror = true, .turn = 10, .zoom = 0.1, .shift = 0.2, .light = 0.1};
  EXPECT_TRUE(all.any());
  EXPECT_FALSE(Augmentation().any());
  int different = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Image y = augmented(x, all, seed);
    EXPECT_EQ(y.pixels, augmented(x, all, seed).pixels);
    different += y.pixels != x.pixels;
    for (const float v : y.pixels) EXPECT_TRUE(v >= 0 && v <= 1);
  }
  EXPECT_GT(different, 15);
}

}  // namespace
}  // namespace fovea::image
