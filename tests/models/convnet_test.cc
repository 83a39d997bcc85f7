#include "fovea/convnet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "fovea/ops.h"
#include "tests/errors.h"
#include "tests/slopes.h"

namespace fovea::models {
namespace {

using test::error_of;
using test::has;

ConvnetConfig small_convnet() {
  ConvnetConfig c;
  c.height = c.width = 32;
  c.channels = 1;
  c.features = 8;
  c.stride = 2;
  c.classes = 3;
  c.depth = 4;
  return c;
}

void set_gate(const Convnet& m, float value) {
  const NoGrad off;
  Tensor(m.attention.gate).fill_(value);
}

// Grey, with a mark of its own kind at either end of the diagonal.
Tensor image_of(float first, float second) {
  std::vector<float> pixels(32 * 32, 0.5f);
  for (size_t i = 0; i < 9; ++i) {
    pixels[(3 + i / 3) * 32 + 3 + i % 3] += first * (i % 2 == 0 ? 1.0f : -0.5f);
    pixels[(26 + i / 3) * 32 + 26 + i % 3] += second * (i % 2 == 0 ? 1.0f : -0.5f);
  }
  return Tensor::from(pixels, {1, 1, 32, 32});
}

// L(a,b) + L(c,d) − L(a,d) − L(c,b): 0 where no place knows of both marks.
double interaction(const Convnet& m) {
  const NoGrad off;
  const auto logit = [&](float a, float b) {
    return classify(m, image_of(a, b)).logits.to_vector();
  };
  const auto ab = logit(0.4f, 0.1f), cd = logit(-0.3f, 0.5f), ad = logit(0.4f, 0.5f),
             cb = logit(-0.3f, 0.1f);
  double most = 0;
  for (size_t k = 0; k < ab.size(); ++k) {
    most = std::max(most, std::abs(static_cast<double>(ab[k] + cd[k] - ad[k] - cb[k])));
  }
  return most;
}

TEST(Convnet, WithoutAttentionFarApartIsNeverCompared) {
  ConvnetConfig c = small_convnet();
  ASSERT_LT(reach_of(c), 20);
  c.attention = false;
  EXPECT_LT(interaction(convnet(c, 1)), 1e-5);
  c.attention = true;
  const Convnet m = convnet(c, 1);
  EXPECT_LT(interaction(m), 1e-5);  // γ = 0
  set_gate(m, 1.0f);
  EXPECT_GT(interaction(m), 1e-3);
}

TEST(Convnet, StartsTheSameWithAndWithoutAttention) {
  ConvnetConfig c = small_convnet();
  const Tensor x = sigmoid(Tensor::randn({4, 1, 32, 32}, 3));
  const auto with = classify(convnet(c, 5), x, {.mode = Mode::train}).logits.to_vector();
  c.attention = false;
  const auto without = classify(convnet(c, 5), x, {.mode = Mode::train}).logits.to_vector();
  for (size_t i = 0; i < with.size(); ++i) EXPECT_NEAR(with[i], without[i], 1e-5);
  EXPECT_LT(count_weights(c), count_weights(small_convnet()));
}

TEST(Convnet, GradientsAreSlopes) {
  ConvnetConfig c = small_convnet();
  c.height = c.width = 8;
  c.features = 4;
  const Convnet m = convnet(c, 2);
  set_gate(m, 0.5f);
  const Tensor x = sigmoid(Tensor::randn({4, 1, 8, 8}, 3));
  const Tensor labels = Tensor::from_ids(std::vector<int64_t>{0, 2, 1, 1}, {4});
  const auto f = [&] { return cross_entropy(classify(m, x).logits, labels); };
  f().backward();
  // Corners of relu: a small step.
  test::expect_slopes(m.weights.learned(), [&] { return static_cast<double>(f().item()); },
                      {.step = 5e-4f, .relative = 0.02});
}

TEST(Convnet, GivesWhatPlacesAttendTo) {
  const Convnet m = convnet(small_convnet(), 2);
  const ConvnetOutput seen =
      classify(m, sigmoid(Tensor::randn({2, 1, 32, 32}, 3)), {.keep_weights = true});
  ASSERT_EQ(seen.weights.shape(), (Shape{2, 1, 256, 256}));
  ASSERT_EQ(seen.logits.shape(), (Shape{2, 3}));
}

TEST(Convnet, RefusesSettingsOutOfRange) {
  ConvnetConfig c = small_convnet();
  c.stride = 5;
  EXPECT_TRUE(has(error_of([&] { convnet(c, 1); }), "stride must be 2, 4, 8, 16 or 32"));
  c = small_convnet();
  c.width = 31;
  EXPECT_TRUE(has(error_of([&] { convnet(c, 1); }), "not a multiple of the stride"));
  EXPECT_TRUE(has(error_of([&] {
                    classify(convnet(small_convnet(), 1), Tensor::zeros({1, 3, 32, 32}));
                  }),
                  "expected [B,1,32,32]"));
}

TEST(Convnet, LogitsComeOfTheMeanOfMaps) {
  const Convnet m = convnet(small_convnet(), 4);
  set_gate(m, 0.5f);
  const NoGrad off;
  const ConvnetOutput found = classify(m, image_of(0.3f, -0.2f));
  ASSERT_EQ(found.maps.shape(), (Shape{1, 8, 16, 16}));
  const std::vector<float> expected = m.output(mean(found.maps, {2, 3})).to_vector();
  EXPECT_EQ(found.logits.to_vector(), expected);
}

}  // namespace
}  // namespace fovea::models
