#include "image/digits.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "errors.h"
#include "image/placed.h"

namespace fovea::image {
namespace {

double sum(std::span<const float> pixels) {
  return std::accumulate(pixels.begin(), pixels.end(), 0.0);
}

TEST(Digits, AreDrawnBySeedAndIndex) {
  const LabelledImages all = draw_digits(1, 500);
  std::array<int, 10> count{};
  for (size_t i = 0; i < all.images.size(); ++i) {
    const LabelledImage& d = all.images[i];
    ++count[static_cast<size_t>(d.label)];
    EXPECT_EQ(d.image.pixels, draw_digit(1, i).image.pixels);
    EXPECT_GT(sum(d.image.pixels), 15);
    EXPECT_LT(sum(d.image.pixels), 350);
    double edge = 0;
    for (int64_t x = 0; x < kDigitSide; ++x) {
      edge += static_cast<double>(d.image.pixels[static_cast<size_t>(x)] +
                                  d.image.pixels[static_cast<size_t>(27 * kDigitSide + x)]);
    }
    EXPECT_LT(edge, 6) << "digit " << d.label << ", " << i;
  }
  for (const int n : count) EXPECT_GT(n, 25);
  EXPECT_NE(all.images[0].image.pixels, draw_digit(2, 0).image.pixels);
}

// Digits of one class are alike and those of another are not, but not so much that a mean image
// would do: the nearest mean is right more often than not, and wrong now and then.
TEST(Digits, AreToBeToldApartAndNotTooEasily) {
  constexpr size_t kPixels = kDigitSide * kDigitSide;
  std::vector<std::vector<double>> means(10, std::vector<double>(kPixels));
  for (const LabelledImage& d : draw_digits(1, 2000).images) {
    for (size_t i = 0; i < kPixels; ++i)
      means[static_cast<size_t>(d.label)][i] += d.image.pixels[i] / 200;
  }
  int right = 0;
  for (const LabelledImage& d : draw_digits(2, 500).images) {
    size_t best = 0;
    double least = 1e9;
    for (size_t k = 0; k < 10; ++k) {
      double far = 0;
      for (size_t i = 0; i < kPixels; ++i) {
        const double off = means[k][i] - static_cast<double>(d.image.pixels[i]);
        far += off * off;
      }
      if (far < least) least = far, best = k;
    }
    right += best == static_cast<size_t>(d.label);
  }
  EXPECT_GT(right, 300);
  EXPECT_LT(right, 480);
}

TEST(Placed, PutsTheWholeImageSomewhere) {
  const LabelledImages all = draw_digits(3, 20);
  std::vector<float> canvas(60 * 60), again(60 * 60);
  const PlacedConfig translated{.placing = Placing::anywhere, .canvas = 60};
  std::vector<std::vector<float>> seen;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    place(translated, all.images[4].image, all.images, seed, canvas);
    place(translated, all.images[4].image, all.images, seed, again);
    EXPECT_EQ(canvas, again);
    EXPECT_NEAR(sum(canvas), sum(all.images[4].image.pixels), 1e-3);
    seen.push_back(canvas);
  }
  EXPECT_NE(seen[0], seen[1]);
  place({.placing = Placing::plain, .canvas = 60}, all.images[4].image, all.images, 1, canvas);
  EXPECT_EQ(canvas[16 * 60 + 16 + 5 * 60 + 7], all.images[4].image.pixels[5 * 28 + 7]);
}

TEST(Placed, ClutterIsPiecesOfOthersWithinTheCanvas) {
  const LabelledImages all = draw_digits(3, 20);
  std::vector<float> clear(60 * 60), cluttered(60 * 60);
  int changed = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    place({.placing = Placing::anywhere, .canvas = 60}, all.images[4].image, all.images, seed,
          clear);
    place({.placing = Placing::cluttered, .canvas = 60}, all.images[4].image, all.images, seed,
          cluttered);
    int more = 0;
    for (size_t i = 0; i < clear.size(); ++i) {
      EXPECT_GE(cluttered[i], clear[i]);
      EXPECT_LE(cluttered[i], 1.0f);
      more += cluttered[i] > clear[i];
    }
    EXPECT_LE(more, 4 * 64);
    changed += more > 10;
  }
  EXPECT_GT(changed, 40);
  EXPECT_NE(test::error_of([&] {
              place({.placing = Placing::plain, .canvas = 20}, all.images[0].image, all.images, 1,
                    clear);
            }).find("does not fit"),
            std::string::npos);
}

}  // namespace
}  // namespace fovea::image
