#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "image/image_file.h"
#include "report/seen_image.h"
#include "tasks/image/image_task.h"
#include "tasks/image/pairs.h"
#include "tasks/train.h"
#include "tests/errors.h"
#include "tests/io/files.h"

namespace fovea::tasks::images {
namespace {

using test::error_of;
using test::Folder;
using test::has;
using test::read_bytes;
using test::write_bytes;

TEST(Pairs, AreHalfAndHalfAndAFunctionOfTheirNumber) {
  int same = 0;
  for (uint64_t i = 0; i < 400; ++i) same += draw_pair(1, i).label == 1;
  EXPECT_NEAR(same, 200, 40);
  EXPECT_EQ(draw_pair(1, 7).image.pixels, draw_pair(1, 7).image.pixels);
  EXPECT_NE(draw_pair(1, 7).image.pixels, draw_pair(2, 7).image.pixels);
  // No place of the network that is trained on them by default sees more than an edge of both.
  EXPECT_LE(models::reach_of({}), kFarApart);
}

Given tiny() {
  return {{"examples", "80"},    {"features", "6"}, {"head-depth", "4"}, {"stride", "8"},
          {"batch-images", "8"}, {"epochs", "1"},   {"warmup", "2"}};
}

TEST(ImageRun, TrainsScoresAndShowsWhatPlacesAttendTo) {
  const Folder folder;
  const RunFolder at(folder / "run");
  const Trained t =
      train_run(task_image, at, *config_from(task_image, tiny()), Existing::refuse, {});
  EXPECT_EQ(t.test.count, 8);
  EXPECT_TRUE(std::isfinite(score_of(t.test.scores, "accuracy")));
  EXPECT_NE(score_of(t.test.scores, "gate"), 0);  // it moved
  EXPECT_TRUE(has(read_bytes(at / "report.html"), "class=\"seen\""));
  const auto run = task_image.open(at);
  PredictSettings how;
  how.n_best = 2;
  const auto all = run->predict(std::vector<Input>{Own{"pair", 3}}, how, {.maps = Maps::keep});
  ASSERT_EQ(all[0].size(), 2u);
  EXPECT_NEAR(all[0][0].score + all[0][1].score, 1, 1e-5);
  EXPECT_GE(all[0][0].score, all[0][1].score);
  ASSERT_EQ(all[0][0].pictures.size(), 1u);
  const auto& seen = all[0][0].pictures[0].get<report::SeenImage>();
  ASSERT_EQ(seen.looks.size(), 5u);
  for (const auto& look : seen.looks) {
    float total = 0;
    for (const float w : look.weights) total += w;
    EXPECT_NEAR(total, 1, 1e-4) << look.label;
  }
  EXPECT_TRUE(has(error_of([] { typed_input(task_image, "pair:-1"); }), "expected a number"));
  EXPECT_TRUE(has(error_of([&] {
                    run->predict(std::vector<Input>{Own{"test", 99}}, how);
                  }),
                  "'test:99': there are"));
  EXPECT_TRUE(has(error_of([&] { run->predict(std::vector<Input>{Text{"x"}}, how); }),
                  "sees images, found a text"));
}

TEST(ImageRun, LearnsFromFolders) {
  const Folder folder;
  for (const char* name : {"dark", "light"}) {
    std::filesystem::create_directories(folder / (std::string("data/") + name));
    for (int i = 0; i < 20; ++i) {
      const float grey = (name[0] == 'd' ? 0.1f : 0.7f) + 0.01f * static_cast<float>(i);
      write_bytes(folder / ("data/" + std::string(name) + "/" + std::to_string(i) + ".png"),
                  image::to_png({20, 30, 1, std::vector<float>(600, grey)}));
    }
  }
  write_bytes(folder / "data/dark/broken.jpg", "no image");
  Given options = tiny();
  options.erase("examples");
  options.insert({{"data", folder / "data"}, {"height", "16"}, {"width", "16"}, {"blocks", "1"}});
  options["epochs"] = "10";
  std::vector<std::string> said;
  Watching watching;
  watching.say = [&](const std::string& line) { said.push_back(line); };
  const RunFolder at(folder / "run");
  const Trained t =
      train_run(task_image, at, *config_from(task_image, options), Existing::refuse, watching);
  ASSERT_GE(said.size(), 3u);
  EXPECT_TRUE(has(said[0], "broken.jpg"));
  EXPECT_EQ(said[1], "1 of 41 images were left out");
  EXPECT_EQ(score_of(t.test.scores, "accuracy"), 100);
  const auto run = task_image.open(at);
  EXPECT_EQ(run->evaluate({.file = folder / "data"}, EvaluateSettings()).count, 40);
  std::filesystem::create_directories(folder / "other/grey");
  write_bytes(folder / "other/grey/a.png", image::to_png({4, 4, 1, std::vector<float>(16, 0.5f)}));
  EXPECT_TRUE(has(error_of([&] { run->evaluate({.file = folder / "other"}, EvaluateSettings()); }),
                  "a class 'grey' that was not in the training"));
  // Classes that the data got after the training: they are found by name, and one more is refused.
  std::filesystem::create_directories(folder / "data/aside");
  write_bytes(folder / "data/aside/a.png", image::to_png({4, 4, 1, std::vector<float>(16, 0.5f)}));
  const auto changed = task_image.open(at);
  for (const auto& ask : std::vector<std::function<void()>>{
           [&] { changed->evaluate({}, EvaluateSettings()); }, [&] { changed->examples(3); }}) {
    EXPECT_TRUE(has(error_of(ask), "the data has a class 'aside' that was not in the training"));
  }
}

TEST(ImageRun, OneClassIsNothingToTellApart) {
  const Folder folder;
  std::filesystem::create_directories(folder / "data/one");
  write_bytes(folder / "data/one/a.png", image::to_png({4, 4, 1, std::vector<float>(16, 0.5f)}));
  const auto config = config_from(task_image, {{"data", folder / "data"}});
  EXPECT_TRUE(has(error_of([&] { task_image.begin(*config, nullptr); }), "nothing to tell apart"));
}

TEST(ImageRun, RefusesADamagedFolder) {
  const Folder folder;
  const RunFolder at(folder / "run");
  train_run(task_image, at, *config_from(task_image, tiny()), Existing::refuse, {});
  for (const char* bad : {"{", "{}", "{\"classes\":[]}", "{\"classes\":[1]}"}) {
    write_bytes(at / kClassesFile, bad);
    EXPECT_NE(error_of([&] { load_image_model(at); }), "no error") << bad;
  }
}

}  // namespace
}  // namespace fovea::tasks::images
