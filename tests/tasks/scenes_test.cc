#include "tasks/caption/scenes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace fovea::tasks::captions {
namespace {

constexpr uint64_t kScenes = 300;

double y_of(const Box& b) { return static_cast<double>(b.top + b.bottom) / 2; }
double x_of(const Box& b) { return static_cast<double>(b.left + b.right) / 2; }

TEST(Scenes, AreAFunctionOfSeedAndNumber) {
  EXPECT_EQ(draw_scene(3, 5).image.pixels, draw_scene(3, 5).image.pixels);
  EXPECT_EQ(draw_scene(3, 5).caption(), draw_scene(3, 5).caption());
  EXPECT_NE(draw_scene(3, 5).image.pixels, draw_scene(3, 6).image.pixels);
  EXPECT_NE(draw_scene(3, 5).image.pixels, draw_scene(4, 5).image.pixels);
}

TEST(Scenes, ObjectsLieInsideAndApart) {
  for (uint64_t i = 0; i < kScenes; ++i) {
    const Scene s = draw_scene(1, i);
    ASSERT_FALSE(s.objects.empty());
    ASSERT_EQ(s.image.pixels.size(), static_cast<size_t>(3 * kSceneSide * kSceneSide));
    for (const SceneObject& o : s.objects) {
      EXPECT_GE(std::min(o.box.left, o.box.top), 0);
      EXPECT_LE(std::max(o.box.right, o.box.bottom), kSceneSide);
      EXPECT_EQ(o.box.right - o.box.left < 16, o.small);
      for (const SceneObject& other : s.objects) {
        if (&o == &other) continue;
        EXPECT_TRUE(o.box.right <= other.box.left || other.box.right <= o.box.left ||
                    o.box.bottom <= other.box.top || other.box.bottom <= o.box.top);
        EXPECT_FALSE(o.colour == other.colour && o.shape == other.shape);
      }
    }
  }
}

// Upper ones first; the relation is the one further apart.
TEST(Scenes, HaveOneSentenceWhichIsTrue) {
  std::map<std::string, int> relations;
  for (uint64_t i = 0; i < kScenes; ++i) {
    const Scene s = draw_scene(1, i);
    ASSERT_EQ(s.words.size(), s.names.size());
    for (size_t n = 1; n < s.objects.size(); ++n) {
      const SceneObject &a = s.objects[n - 1], &b = s.objects[n];
      EXPECT_LT(y_of(a.box), y_of(b.box));
    }
    for (size_t t = 0; t < s.words.size(); ++t) {
      if (s.names[t] < 0) continue;
      const SceneObject& o = s.objects[static_cast<size_t>(s.names[t])];
      EXPECT_TRUE(s.words[t] == o.colour || s.words[t] == o.shape ||
                  (o.small && s.words[t] == "small"))
          << s.caption();
    }
    if (s.objects.size() < 2) continue;
    const double dx = x_of(s.objects[0].box) - x_of(s.objects[1].box),
                 dy = y_of(s.objects[0].box) - y_of(s.objects[1].box);
    const std::string expected =
        std::abs(dy) > std::abs(dx) ? "above" : (dx < 0 ? "left" : "right");
    ++relations[expected];
    EXPECT_EQ(std::count(s.words.begin(), s.words.end(), expected), 1) << s.caption();
  }
  EXPECT_EQ(relations.size(), 3u);
  for (const auto& [name, count] : relations) EXPECT_GT(count, 10) << name;
}

// Beside its own paint there is only paper in an object's box, and no paint outside of all.
TEST(Scenes, ArePaintedWhereTheBoxesAre) {
  for (uint64_t i = 0; i < 40; ++i) {
    const Scene s = draw_scene(2, i);
    const auto at = [&](int64_t y, int64_t x) {
      return &s.image.pixels[static_cast<size_t>(3 * (y * kSceneSide + x))];
    };
    const auto is_paper = [&](const float* p) {
      return std::abs(p[0] - p[1]) < 1e-6f && std::abs(p[1] - p[2]) < 1e-6f && p[0] > 0.6f;
    };
    for (int64_t y = 0; y < kSceneSide; ++y) {
      for (int64_t x = 0; x < kSceneSide; ++x) {
        const bool inside = std::any_of(s.objects.begin(), s.objects.end(), [&](const auto& o) {
          return o.box.has(static_cast<double>(x), static_cast<double>(y));
        });
        ASSERT_TRUE(inside || is_paper(at(y, x)));
      }
    }
    for (const SceneObject& o : s.objects) {
      EXPECT_FALSE(
          is_paper(at(static_cast<int64_t>(y_of(o.box)), static_cast<int64_t>(x_of(o.box)))));
    }
  }
}

}  // namespace
}  // namespace fovea::tasks::captions
