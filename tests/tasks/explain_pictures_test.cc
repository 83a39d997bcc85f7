#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "fovea/ops.h"
#include "report/seen_image.h"
#include "tasks/explain.h"
#include "tasks/faithful.h"
#include "tests/errors.h"
#include "tests/tasks/asking.h"

// Looking inside models that see.
namespace fovea::tasks {
namespace {

using test::error_of;
using test::has;

std::unique_ptr<Run> run_that_sees(const std::string& of, const Given& options) {
  const Task& t = task(of);
  return t.begin(*config_from(t, options), nullptr);
}

struct Pictured {
  std::string name, task, input;
  Given options;
  bool looks = true;
};

const std::vector<Pictured>& all_pictured() {
  const auto captions = [](Given more) {
    more.insert({{"examples", "40"}, {"seed", "3"}, {"features", "6"}, {"hidden", "9"}});
    more.insert({{"embedding", "5"}, {"stride", "8"}, {"longest", "5"}});
    return more;
  };
  const auto images = [](Given more) {
    more.insert({{"examples", "40"}, {"seed", "3"}, {"features", "6"}, {"stride", "8"}});
    return more;
  };
  static const std::vector<Pictured> list = {
      {"luong", "caption", "scene:3", captions({})},
      {"bahdanau", "caption", "scene:4", captions({{"order", "bahdanau"}})},
      {"hard", "caption", "scene:5", captions({{"weighting", "sample"}})},
      {"fixed", "caption", "scene:6", captions({{"context", "fixed"}}), false},
      {"attention", "image", "pair:3", images({})},
      {"convolutions", "image", "pair:4", images({{"attention", "false"}}), false},
  };
  return list;
}

float total(const std::vector<float>& values) {
  float size = 0;
  for (const float v : values) size += std::abs(v);
  return size;
}

// Outputs × places, whatever the way; what makes no sense says why.
TEST(ExplainPictures, EveryWayGivesPlaces) {
  for (const Pictured& one : all_pictured()) {
    const auto run = run_that_sees(one.task, one.options);
    const Inside in = run->inside(typed_input(task(one.task), one.input)).value();
    const size_t rows = in.side_by_side ? 1 : in.outputs.size(), places = in.inputs.size();
    ASSERT_EQ(in.x.shape(), (Shape{3, in.image.height, in.image.width})) << one.name;
    ASSERT_EQ(static_cast<int64_t>(places), in.grid.rows * in.grid.columns) << one.name;
    std::vector<By> some;
    for (const By by : ways()) {
      const bool of_transformers =
          by == By::rollout || by == By::lens || by == By::heads || by == By::patching;
      if (of_transformers || (by == By::attention && !one.looks)) {
        const std::string refused = error_of([&] { explain(in, asking({by})); });
        EXPECT_TRUE(has(refused, "this model has no")) << one.name << refused;
      } else {
        some.push_back(by);
      }
    }
    const std::vector<Explanation> maps = explain(in, asking(some));
    for (const Explanation& e : maps) {
      const std::string what = one.name + " " + name_of(e.by);
      EXPECT_EQ(e.map.rows.size(), rows) << what;
      ASSERT_EQ(e.map.weights.size(), rows * places) << what;
      for (const float w : e.map.weights) {
        EXPECT_TRUE(std::isfinite(w)) << what;
        EXPECT_TRUE(e.map.scale != report::Scale::from_zero || w >= 0.0f) << what;
      }
      const double all = total(e.map.weights);
      EXPECT_TRUE(all > 0 || has(what, "cam")) << what;  // ReLU may leave 0
      EXPECT_TRUE(e.by != By::attention || std::abs(all - static_cast<double>(rows)) < 1e-3)
          << what;
    }
    EXPECT_EQ(agreement_of(maps).rows.size(), maps.size()) << one.name;
    const std::vector<report::Picture> d = pictures_of(in, maps);
    ASSERT_EQ(d.size(), maps.size()) << one.name;
    for (const report::Picture& seen : d) {
      EXPECT_EQ(seen.get<report::SeenImage>().looks.size(), rows) << one.name;
    }
    EXPECT_EQ(to_json(in, maps)["maps"][0]["looks"].size(), rows) << one.name;
    EXPECT_FALSE(page_of("x", in, maps).sections.empty());
    EXPECT_TRUE(has(error_of([&] { fast_and_slow(in, in, {}); }), "is a picture")) << one.name;
  }
}

// By pixel at first, then the sum of each place's.
TEST(ExplainPictures, APlaceHasTheSumOfItsPixels) {
  const auto run = run_that_sees("image", all_pictured()[4].options);
  const Inside in = run->inside(Own{"pair", 3}).value();
  const Explanation e = explain(in, asking({By::saliency})).front();
  ASSERT_EQ(e.fine.shape(), (Shape{1, in.image.height, in.image.width}));
  const std::vector<float> summed = explain::summed(e.fine, in.grid).to_vector();
  for (size_t n = 0; n < summed.size(); ++n) EXPECT_FLOAT_EQ(summed[n], e.map.weights[n]);
  const report::Picture picture = picture_of(in, e);
  const auto& seen = picture.get<report::SeenImage>();
  EXPECT_EQ(seen.rows, in.image.height);
}

// The Jacobian of a place is the length of its pixels' gradients, which saliency takes one by one.
TEST(ExplainPictures, AJacobianIsByPlace) {
  const auto run = run_that_sees("caption", all_pictured()[0].options);
  const Inside in = run->inside(Own{"scene", 3}).value();
  Explaining how = asking({By::jacobian, By::saliency});
  how.output = "2";
  const std::vector<Explanation> both = explain(in, how);
  const Tensor squares = explain::summed(square(both[1].fine), in.grid);
  const std::vector<float> expected = sqrt(squares).to_vector();
  ASSERT_EQ(both[0].map.weights.size(), expected.size());
  for (size_t n = 0; n < expected.size(); ++n) {
    EXPECT_NEAR(both[0].map.weights[n], expected[n], 1e-4f * (1 + expected[n])) << n;
  }
}

// Where the output takes the mean of the places, the mean gradient is each place's own.
TEST(ExplainPictures, BothWaysOfGradCamAreOneWithoutALook) {
  const auto run = run_that_sees("image", all_pictured()[4].options);
  const Inside in = run->inside(Own{"pair", 5}).value();
  Explaining how = asking({By::gradcam, By::gradcam_places});
  float size = 0;
  for (const char* output : {"1", "2"}) {
    how.output = output;
    const std::vector<Explanation> both = explain(in, how);
    size += total(both[0].map.weights);
    for (size_t n = 0; n < both[0].map.weights.size(); ++n) {
      EXPECT_NEAR(both[0].map.weights[n], both[1].map.weights[n], 1e-5f) << output << n;
    }
  }
  EXPECT_GT(size, 0.0f);
}

// (y(x + εd) − y(x − εd)) / 2ε = d·∂y/∂x, along the gradient and along others.
TEST(ExplainPictures, SaliencyIsTheQuotientOfDifferences) {
  for (const Pictured& one : all_pictured()) {
    if (one.name == "hard") continue;  // the likeliest place is no smooth function
    const auto run = run_that_sees(one.task, one.options);
    const Inside in = run->inside(typed_input(task(one.task), one.input)).value();
    const auto t = static_cast<int64_t>(in.side_by_side ? in.shown : in.outputs.size() - 1);
    const Tensor d = explain::saliency(in.log_odds, in.x, t).values;
    const auto along = [&](const Tensor& way) {
      const NoGrad off;
      const float length = sqrt(sum(square(way))).item(), step = 4e-3f;
      const Tensor unit = way * (1 / length);
      const std::vector<float> y =
          in.log_odds(stack({in.x + unit * step, in.x - unit * step}, 0)).select(1, t).to_vector();
      return std::pair{(y[0] - y[1]) / (2 * step), sum(unit * d).item()};
    };
    const float size = sqrt(sum(square(d))).item();
    ASSERT_GT(size, 0.0f) << one.name;
    for (const Tensor& way : {d, d + Tensor::randn(d.shape(), 7) * (size / 50)}) {
      const auto [found, expected] = along(way);
      EXPECT_NEAR(found, expected, 0.03f * size) << one.name;
    }
  }
}

TEST(ExplainPictures, AttentionIsWhatPredictShows) {
  const auto run = run_that_sees("caption", all_pictured()[0].options);
  const Task& t = task("caption");
  const std::vector<Input> inputs = {Own{"scene", 3}};
  const auto predicted = run->predict(inputs, *t.predict_settings(), {.maps = Maps::keep});
  const auto& expected = predicted[0][0].pictures.front().get<report::SeenImage>();
  const Inside in = run->inside(Own{"scene", 3}).value();
  const report::Picture picture = pictures_of(in, explain(in, asking({By::attention}))).front();
  const auto& found = picture.get<report::SeenImage>();
  ASSERT_EQ(found.looks.size(), expected.looks.size());
  EXPECT_EQ(found.image.pixels, expected.image.pixels);
  for (size_t n = 0; n < found.looks.size(); ++n) {
    EXPECT_EQ(found.looks[n].label, expected.looks[n].label);
    for (size_t i = 0; i < found.looks[n].weights.size(); ++i) {
      EXPECT_NEAR(found.looks[n].weights[i], expected.looks[n].weights[i], 1e-5f);
    }
  }
}

TEST(ExplainPictures, PlacesThatAreAttendedToMostAreALayer) {
  const auto run = run_that_sees("image", all_pictured()[4].options);
  const Inside in = run->inside(Own{"pair", 3}).value();
  Explaining how = asking({By::attention, By::occlusion});
  how.layer = "places";
  const std::vector<Explanation> found = explain(in, how);
  EXPECT_FALSE(found[0].of_outputs);
  EXPECT_TRUE(has(found[0].map.rows.front(), "from "));
  EXPECT_TRUE(agreement_of(found).rows.empty());
  EXPECT_EQ(picture_of(in, found[0]).get<report::SeenImage>().looks.size(),
            found[0].map.rows.size());
}

// ---- Whether it points at what is named ---------------------------------------------------------

// A picture of 10 × 10 in 5 × 5 places, whose one output is the light in its lower right, as wide
// as what occlusion hides.
Inside lit() {
  Inside in{.title = "light", .outputs = {"light"}};
  image::Image image{10, 10, 1, std::vector<float>(100, 0.0f)};
  for (size_t n = 0; n < 100; ++n) image.pixels[n] = n / 10 >= 4 && n % 10 >= 4 ? 1.0f : 0.0f;
  const Tensor where = Tensor::from(image.pixels, {1, 1, 10, 10});
  const float grey = set_picture(in, std::move(image), {5, 5});
  EXPECT_NEAR(grey, 0.36f, 1e-6f);
  in.log_odds = [where, grey](const Tensor& rows) {
    return sum((rows + grey) * where, {1, 2, 3}).unsqueeze(1);
  };
  return in;
}

TEST(PointsAt, APeakLiesInABoxOrNot) {
  const Inside in = lit();
  std::vector<float> values(25, 0.1f);
  values[4] = -9;
  values[13] = 2;  // the third row's fourth place, whose middle is at x = 7, y = 5
  EXPECT_TRUE(peak_in(values, in, {6, 4, 2, 2}));
  EXPECT_TRUE(peak_in(values, in, {0, 0, 10, 10}));
  EXPECT_FALSE(peak_in(values, in, {0, 0, 10, 4.5}));
  EXPECT_FALSE(peak_in(values, in, {7.5, 4, 2, 2}));
  EXPECT_FALSE(peak_in(std::vector<float>(25, 0.0f), in, {0, 0, 10, 10}));  // it points nowhere
}

TEST(PointsAt, WhatMovesALinearOutputIsThere) {
  Inside in = lit();
  Pointing p;
  add_pointing(in, p);
  EXPECT_TRUE(p.ways.empty() && table_of(p).rows.empty());  // nothing is named
  in.boxed = {{0, {4, 4, 6, 6}}};
  add_pointing(in, p);
  in.boxed = {{0, {0, 0, 4, 4}}};
  add_pointing(in, p);
  ASSERT_EQ(p.ways.size(), 5u);
  for (const Pointed& w : p.ways) {
    EXPECT_EQ(w.words, 2) << name_of(w.by);
    EXPECT_EQ(w.hits, 1) << name_of(w.by);
    EXPECT_EQ(w.with_occlusion, 2) << name_of(w.by);
  }
  EXPECT_NEAR(p.chance, 0.36 + 0.16, 1e-9);
  EXPECT_EQ(table_of(p).rows.size(), 6u);
  EXPECT_EQ(to_json(p)["saliency"]["peak_in_box"], 50.0);
}

// ---- Whether attention explains -----------------------------------------------------------------

TEST(FaithfulPictures, MeasuresWhereWordsLook) {
  FaithfulSettings quick;
  quick.inputs = 2;
  quick.steps = 10;
  quick.permutations = 2;
  for (const Pictured& one : all_pictured()) {
    const auto run = run_that_sees(one.task, one.options);
    const auto measured = [&] { return measure_faithful(*run, {}, {}, quick); };
    if (!one.looks || one.task == "image") {
      EXPECT_TRUE(has(error_of([&] { measured(); }), "no look at the input")) << one.name;
      continue;
    }
    const FaithfulFound f = measured();
    EXPECT_EQ(f.inputs, 2) << one.name;
    for (const explain::Faithful& e : f.each) {
      EXPECT_EQ(e.inputs, 64) << one.name;
      for (const double tau : {e.tau_gradient, e.tau_left_out}) {
        EXPECT_TRUE(std::isnan(tau) || std::abs(tau) <= 1) << one.name;
      }
      for (const double change : {e.permuted, e.uniform}) {
        EXPECT_TRUE(change >= 0 && change <= 1.0001) << one.name << change;
      }
      EXPECT_TRUE(e.adversarial >= 0 && e.adversarial <= 0.694) << one.name << e.adversarial;
    }
  }
}

}  // namespace
}  // namespace fovea::tasks
