#include "fovea/explain.h"

#include <gtest/gtest.h>

#include <cmath>

#include "fovea/ops.h"
#include "tests/errors.h"

namespace fovea::explain {
namespace {

using test::error_of;
using test::has;

std::vector<float> v(const Tensor& t) { return t.to_vector(); }

void expect_near(const Tensor& found, const Tensor& expected, float within) {
  ASSERT_EQ(found.shape(), expected.shape());
  const std::vector<float> a = v(found), b = v(expected);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], within) << i;
}

// y_0 = Σ w·x, y_1 = Σ x³.
const Tensor kWeights = Tensor::randn({4, 3}, 8);
Tensor two_outputs(const Tensor& rows) {
  return stack({sum(rows * kWeights, {1, 2}), sum(rows * rows * rows, {1, 2})}, 1);
}

TEST(Saliency, OfALinearOutputIsItsWeights) {
  const Tensor x = Tensor::randn({4, 3}, 9);
  for (const Saliency kind : {Saliency::plain, Saliency::smoothed}) {
    expect_near(saliency(two_outputs, x, 0, {.kind = kind}).values, kWeights, 1e-5f);
  }
  expect_near(saliency(two_outputs, x, 0, {.kind = Saliency::times_input}).values, x * kWeights,
              1e-5f);
  expect_near(saliency(two_outputs, x, 0, {.kind = Saliency::integrated}).values, x * kWeights,
              1e-5f);
}

// ∫ 3(a·x)² da = x², and ∂y/∂x = 3x².
TEST(Saliency, OfACubeIsAsItIsDefined) {
  const Tensor x = Tensor::randn({4, 3}, 10);
  expect_near(saliency(two_outputs, x, 1).values, x * x * 3.0f, 1e-4f);
  const Attribution whole = saliency(two_outputs, x, 1, {.kind = Saliency::integrated});
  expect_near(whole.values, x * x * x, 1e-4f);
  EXPECT_LT(whole.missing, 1e-4);
  // Noise of deviation σ adds 3σ² to the mean of 3(x + noise)².
  const Tensor flat = Tensor::from({0.0f, 1.0f}, {1, 2});
  const Outputs cube = [](const Tensor& rows) {
    return sum(rows * rows * rows, {1, 2}).unsqueeze(1);
  };
  const Tensor smooth =
      saliency(cube, flat, 0, {.kind = Saliency::smoothed, .draws = 4000, .noise = 0.5f}).values;
  expect_near(smooth, Tensor::from({0.75f, 3.75f}, {1, 2}), 0.2f);
}

TEST(Saliency, TakesMoreStepsWhereFewMiss) {
  const Outputs steep = [](const Tensor& rows) {
    return sum(sigmoid(rows * 200.0f - 60.0f), {1, 2}).unsqueeze(1);
  };
  const Tensor x = Tensor::full({1, 1}, 1.0f);
  SaliencyConfig c{.kind = Saliency::integrated, .steps = 2, .most = 2};
  EXPECT_GT(saliency(steep, x, 0, c).missing, 0.1);
  c.most = 1024;
  EXPECT_LE(saliency(steep, x, 0, c).missing, 0.01);
}

TEST(Occlusion, IsWhatIsLost) {
  const Tensor x = Tensor::randn({4, 3}, 11), blank = Tensor::zeros({3});
  const Tensor lost = occlusion(two_outputs, x, 4, blank_rows(x, blank), {.rows = 3});
  ASSERT_EQ(lost.shape(), (Shape{2, 4}));
  expect_near(lost.select(0, 0), sum(x * kWeights, {1}), 1e-5f);
  expect_near(lost.select(0, 1), sum(x * x * x, {1}), 1e-5f);
}

// Around the middle of a place, cut where the picture ends.
TEST(Occlusion, BlanksPatchesOfAPicture) {
  const Tensor x = Tensor::rand({2, 6, 4}, 3);
  const Without without = blank_patches(x, {.grid = {3, 2}, .size = 4, .value = -1.0f});
  const auto hidden = [&](int64_t place, size_t top, size_t bottom, size_t left, size_t right) {
    const std::vector<float> all = v(x), seen = v(without(place));
    for (size_t i = 0; i < all.size(); ++i) {
      const size_t row = i / 4 % 6, column = i % 4;
      const bool inside = row >= top && row < bottom && column >= left && column < right;
      EXPECT_EQ(seen[i], inside ? -1.0f : all[i]) << place << " " << i;
    }
  };
  hidden(0, 0, 3, 0, 3);
  hidden(3, 1, 5, 1, 4);
  hidden(4, 3, 6, 0, 3);
  EXPECT_TRUE(has(error_of([&] { blank_patches(Tensor::zeros({2, 2}), {}); }), "[C,Y,X]"));
}

TEST(Patches, AreThePixelsOfPlacesAndBack) {
  const Tensor x = Tensor::rand({2, 6, 4}, 5);
  const Grid grid{3, 2};
  const Tensor patches = patches_of(x, grid);
  ASSERT_EQ(patches.shape(), (Shape{6, 8}));
  const std::vector<float> last = v(patches.select(0, 5)), all = v(x);  // rows 4, 5, columns 2, 3
  EXPECT_EQ(last[0], all[4 * 4 + 2]);
  EXPECT_EQ(last[3], all[5 * 4 + 3]);
  EXPECT_EQ(last[7], all[24 + 5 * 4 + 3]);
  const Tensor back = pictures_of(stack({patches, patches}, 0), grid, x.shape());
  EXPECT_EQ(v(back.select(0, 1)), all);
  const Tensor places = summed(x, grid);
  ASSERT_EQ(places.shape(), (Shape{2, 3, 2}));
  expect_near(places.select(0, 0).reshape({6}), sum(patches.slice(1, 0, 4), {1}), 1e-5f);
  EXPECT_TRUE(has(error_of([&] { patches_of(x, {4, 2}); }), "multiples of 4 and 2"));
}

TEST(GradCam, KeepsMapsThatRaiseTheOutput) {
  Tensor maps = Tensor::rand({1, 2, 3, 3}, 4);
  maps.set_requires_grad();
  const Tensor means = mean(maps, {2, 3});  // [1,2]
  const Tensor y = sum(means * Tensor::from({9.0f, -90.0f}, {1, 2}), {1});
  const Tensor m = maps.detach().select(0, 0);
  expect_near(grad_cam(maps, y).select(0, 0), relu(m.select(0, 0) - m.select(0, 1) * 10.0f), 1e-5f);
  EXPECT_TRUE(has(error_of([&] { grad_cam(maps, means); }), "the output [R]"));
}

TEST(Rollout, IsAProductOfHalves) {
  const Tensor one = softmax(Tensor::randn({2, 4, 4}, 5)), two = softmax(Tensor::randn({4, 4}, 6));
  const std::vector<Tensor> layers = {one, two};
  const Tensor all = rollout(layers);
  for (const float total : v(sum(all, {1}))) EXPECT_NEAR(total, 1.0f, 1e-5f);
  expect_near(all, matmul(half_kept(two), half_kept(one)), 1e-6f);
  Tensor identity = Tensor::zeros({3, 3});
  for (int64_t i = 0; i < 3; ++i) identity.select(0, i).slice(0, i, i + 1).fill_(1);
  expect_near(rollout(std::vector<Tensor>{identity, identity}), identity, 0.0f);
  EXPECT_TRUE(has(error_of([] { half_kept(Tensor::zeros({2, 3})); }), "[H,L,L]"));
}

// As scipy.stats.kendalltau gives them.
TEST(KendallTau, CountsPairs) {
  const auto tau = [](std::vector<float> a, std::vector<float> b) { return kendall_tau(a, b); };
  EXPECT_DOUBLE_EQ(tau({1, 2, 3, 4}, {10, 20, 30, 40}), 1.0);
  EXPECT_DOUBLE_EQ(tau({1, 2, 3, 4}, {4, 3, 2, 1}), -1.0);
  EXPECT_NEAR(tau({12, 2, 1, 12, 2}, {1, 4, 7, 1, 0}), -0.47140452079103173, 1e-12);
  EXPECT_NEAR(tau({1, 2, 3, 4, 5}, {3, 1, 2, 5, 4}), 0.4, 1e-12);
  EXPECT_TRUE(std::isnan(tau({1, 1, 1}, {1, 2, 3})));
  EXPECT_TRUE(has(error_of([&] { tau({1}, {1, 2}); }), "found 1 and 2"));
}

TEST(Distances, OfDistributions) {
  const std::vector<float> a = {1, 0, 0}, b = {0, 0.5f, 0.5f}, c = {0.5f, 0.5f, 0};
  EXPECT_NEAR(jensen_shannon(a, b), std::log(2.0), 1e-12);
  EXPECT_EQ(jensen_shannon(a, a), 0.0);
  EXPECT_NEAR(jensen_shannon(a, c),
              0.5 * std::log(1 / 0.75) + 0.25 * std::log(0.5 / 0.75) + 0.25 * std::log(2.0), 1e-9);
  EXPECT_DOUBLE_EQ(total_variation(a, b), 1.0);
  EXPECT_DOUBLE_EQ(total_variation(a, c), 0.5);
}

}  // namespace
}  // namespace fovea::explain
