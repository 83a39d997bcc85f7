#include "image/resize.h"

#include <gtest/gtest.h>

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

TEST(Augmented, IsAFunctionOfItsSeed) {
  const Image x = ramp(12, 12, 3);
  EXPECT_EQ(mirrored(mirrored(x)).pixels, x.pixels);
  EXPECT_EQ(mirrored({1, 3, 1, {1, 2, 3}}).pixels, (std::vector<float>{3, 2, 1}));
  EXPECT_EQ(augmented(x, {}, 5).pixels, x.pixels);
  const Augmentation all{.mirror = true, .shift = 0.2, .light = 0.1};
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
