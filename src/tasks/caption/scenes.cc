#include "tasks/caption/scenes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "tasks/draw.h"

namespace fovea::tasks::captions {
namespace {

constexpr uint64_t kDataSet = 0x5ce7e5;

struct Paint {
  std::string_view name;
  std::array<float, 3> rgb;
};
constexpr Paint kPaints[] = {
    {"red", {0.85f, 0.15f, 0.13f}},    {"green", {0.13f, 0.60f, 0.22f}},
    {"blue", {0.14f, 0.30f, 0.82f}},   {"yellow", {0.95f, 0.80f, 0.15f}},
    {"purple", {0.55f, 0.20f, 0.65f}}, {"black", {0.10f, 0.10f, 0.12f}},
};

// Whether (x, y), both from −1 to 1, lies inside.
struct Form {
  std::string_view name;
  bool (*inside)(double x, double y);
};
const Form kForms[] = {
    {"circle", [](double x, double y) { return x * x + y * y <= 1; }},
    {"square", [](double, double) { return true; }},
    {"triangle", [](double x, double y) { return std::abs(x) <= (y + 1) / 2; }},
    {"cross", [](double x, double y) { return std::min(std::abs(x), std::abs(y)) <= 0.34; }},
};

constexpr int64_t kMargin = 2, kApart = 3;

double centre_x(const Box& b) { return static_cast<double>(b.left + b.right) / 2; }
double centre_y(const Box& b) { return static_cast<double>(b.top + b.bottom) / 2; }

bool overlap(const Box& a, const Box& b) {
  return a.left < b.right + kApart && b.left < a.right + kApart && a.top < b.bottom + kApart &&
         b.top < a.bottom + kApart;
}

// Neither which is upper nor how two lie is a matter of a pixel.
bool clear_of(const SceneObject& o, const std::vector<SceneObject>& others) {
  return std::none_of(others.begin(), others.end(), [&](const SceneObject& other) {
    const double dx = std::abs(centre_x(o.box) - centre_x(other.box)),
                 dy = std::abs(centre_y(o.box) - centre_y(other.box));
    return overlap(o.box, other.box) || dy < 5 || std::abs(dx - dy) < 5 ||
           (o.colour == other.colour && o.shape == other.shape);
  });
}

SceneObject some_object(Draw& draw) {
  SceneObject o;
  o.colour = std::string(draw.pick(std::span<const Paint>(kPaints)).name);
  o.shape = std::string(draw.pick(std::span<const Form>(kForms)).name);
  o.small = draw.chance(0.5);
  const int64_t side = o.small ? draw.between(11, 14) : draw.between(20, 25);
  o.box.left = draw.between(kMargin, kSceneSide - kMargin - side);
  o.box.top = draw.between(kMargin, kSceneSide - kMargin - side);
  o.box.right = o.box.left + side;
  o.box.bottom = o.box.top + side;
  return o;
}

std::vector<SceneObject> some_objects(Draw& draw) {
  constexpr int kTries = 200;
  const auto count = static_cast<size_t>(draw.chance(0.25) ? 1 : draw.chance(0.6) ? 2 : 3);
  std::vector<SceneObject> objects;
  for (int n = 0; n < kTries && objects.size() < count; ++n) {
    SceneObject o = some_object(draw);
    if (clear_of(o, objects)) objects.push_back(std::move(o));
  }
  std::sort(objects.begin(), objects.end(), [](const SceneObject& a, const SceneObject& b) {
    return centre_y(a.box) < centre_y(b.box);
  });
  return objects;
}

// How the upper of two lies to the other.
std::vector<std::string> relation(const Box& upper, const Box& lower) {
  const double dx = centre_x(lower) - centre_x(upper), dy = centre_y(lower) - centre_y(upper);
  if (dy > std::abs(dx)) return {"above"};
  return {dx > 0 ? "left" : "right", "of"};
}

void say(Scene& scene) {
  const auto put = [&](const std::string& word, int64_t names) {
    scene.words.push_back(word);
    scene.names.push_back(names);
  };
  for (size_t n = 0; n < scene.objects.size(); ++n) {
    const SceneObject& o = scene.objects[n];
    const auto which = static_cast<int64_t>(n);
    if (n == 1) {
      for (const std::string& word : relation(scene.objects[0].box, o.box)) put(word, -1);
    }
    if (n == 2) put("and", -1);
    put("a", -1);
    if (o.small) put("small", which);
    put(o.colour, which);
    put(o.shape, which);
  }
}

// The share of a pixel that a shape covers, from a few points in it.
float coverage(const Form& form, const Box& box, int64_t x, int64_t y) {
  constexpr int kPoints = 3;
  const double half_x = static_cast<double>(box.right - box.left) / 2,
               half_y = static_cast<double>(box.bottom - box.top) / 2;
  int inside = 0;
  for (int i = 0; i < kPoints * kPoints; ++i) {
    const double px = static_cast<double>(x) + (i % kPoints + 0.5) / kPoints,
                 py = static_cast<double>(y) + (i / kPoints + 0.5) / kPoints;
    inside += form.inside((px - centre_x(box)) / half_x, (py - centre_y(box)) / half_y);
  }
  return static_cast<float>(inside) / (kPoints * kPoints);
}

template <class Named>
const Named& by_name(std::span<const Named> all, const std::string& name) {
  return *std::find_if(all.begin(), all.end(), [&](const Named& n) { return n.name == name; });
}

void paint(image::Image& x, const SceneObject& o) {
  const Form& form = by_name(std::span<const Form>(kForms), o.shape);
  const Paint& paint = by_name(std::span<const Paint>(kPaints), o.colour);
  for (int64_t row = o.box.top; row < o.box.bottom; ++row) {
    for (int64_t column = o.box.left; column < o.box.right; ++column) {
      const float share = coverage(form, o.box, column, row);
      float* pixel = &x.pixels[static_cast<size_t>(3 * (row * x.width + column))];
      for (size_t c = 0; c < 3; ++c) pixel[c] += share * (paint.rgb[c] - pixel[c]);
    }
  }
}

}  // namespace

std::string Scene::caption() const { return fmt::format("{}", fmt::join(words, " ")); }

Scene draw_scene(uint64_t seed, uint64_t i) {
  Draw draw(seed, i, kDataSet);
  Scene scene;
  scene.objects = some_objects(draw);
  say(scene);
  // Paper with a little grain.
  scene.image = {kSceneSide, kSceneSide, 3, {}};
  const auto paper = static_cast<float>(draw.between(78, 96)) / 100.0f;
  for (int64_t n = 0; n < kSceneSide * kSceneSide; ++n) {
    const float v = paper + static_cast<float>(draw.between(-30, 30)) / 1000.0f;
    scene.image.pixels.insert(scene.image.pixels.end(), 3, v);
  }
  for (const SceneObject& o : scene.objects) paint(scene.image, o);
  return scene;
}

}  // namespace fovea::tasks::captions
