// Captions over what a model of others sees.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>

#include "errors.h"
#include "fovea/io.h"
#include "fovea/ops.h"
#include "tasks/caption/seer.h"
#include "tasks/train.h"
#include "tests/checkpoints/golden.h"
#include "tests/io/files.h"

namespace fovea::tasks::captions {
namespace {

namespace fs = std::filesystem;
using checkpoints::test::Copied;
using checkpoints::test::golden;
using test::error_of;
using test::Folder;
using test::has;
using test::read_bytes;

Given small_seeing(const fs::path& encoder) {
  return {{"encoder", encoder.string()}, {"examples", "40"},   {"steps", "4"},
          {"validate-every", "2"},       {"hidden", "8"},      {"embedding", "6"},
          {"batch-images", "8"},         {"valid-images", "2"}};
}

image::Image drawn_picture() { return draw_scene(3, 5).image; }

// The rows of the patches, after the tokens before them, place by place.
TEST(Seer, SeesWhatTheLastBlockSaysOfThePatches) {
  for (const char* name : {"vit", "deit"}) {
    const Seer seer(golden(name).string());
    ASSERT_EQ(seer.shape(), (Shape{16, 3, 3}));
    const opened::Opened o = opened::load_opened(RunFolder(golden(name)));
    const Tensor rows = opened::rows_of_picture(o, drawn_picture());
    const Tensor places = seer(drawn_picture());
    const int64_t tokens = o.picture->plan.tokens;
    for (const int64_t f : {0, 7, 15}) {
      for (const int64_t y : {0, 2}) {
        EXPECT_EQ(places.select(0, f).select(0, y).select(0, 1).item(),
                  rows.select(0, tokens + 3 * y + 1).select(0, f).item());
      }
    }
  }
}

// It sees each image once: a run that goes on has what it saw, and needs the model for new ones.
TEST(Seer, IsNeededOnceForEachImage) {
  const Folder folder;
  const Copied model("vit");
  const RunFolder whole(folder / "whole"), parts(folder / "parts");
  const Task& t = task_caption;
  const auto train = [&](const RunFolder& run, const Watching& watching) {
    train_run(t, run, *config_from(t, small_seeing(model.path())), Existing::refuse, watching);
  };
  train(whole, {});
  std::atomic<bool> stop = false;
  train(parts, {.progress = [&](const train::Progress& p) { stop = p.step >= 3; }, .stop = &stop});
  EXPECT_EQ(load_safetensors(parts / kSeenFile).size(), 40u);
  EXPECT_EQ(load_safetensors(parts / kSeenFile).at("scene:3").shape(), (Shape{16, 3, 3}));

  const std::vector<Input> new_one = {GivenImage{drawn_picture(), "new.png"}};
  const auto said = [&](const RunFolder& run) {
    return t.open(run)->predict(new_one, *t.predict_settings(), {.maps = Maps::keep});
  };
  EXPECT_FALSE(said(whole)[0][0].pictures.empty());
  fs::remove_all(model.path());
  train_run(t, parts, *parts.config_of(t), Existing::go_on, {});
  for (const char* file : {"log.jsonl", "model.safetensors"}) {
    EXPECT_TRUE(read_bytes(parts / file) == read_bytes(whole / file)) << file;
  }
  EXPECT_EQ(parts.not_of_a_run(t), "");
  EXPECT_GT(t.open(parts)->evaluate({}, *t.evaluate_settings(), {}).count, 0);
  EXPECT_TRUE(has(error_of([&] { said(parts); }), "--encoder"));
}

TEST(Seer, RefusesWhatSeesNothing) {
  const auto why = [](const Given& typed) {
    const Folder folder;
    return error_of([&] {
      train_run(task_caption, RunFolder(folder / "run"), *config_from(task_caption, typed),
                Existing::refuse, {});
    });
  };
  EXPECT_TRUE(has(why(small_seeing(golden("gpt2"))), "GPT-2 writes on"));
  EXPECT_TRUE(has(why(small_seeing(golden("none"))), "no config.json"));
  Given both = small_seeing(golden("vit"));
  both["places"] = "x.safetensors";
  both["data"] = "captions.tsv";
  EXPECT_FALSE(why(both).empty());
}

}  // namespace
}  // namespace fovea::tasks::captions
