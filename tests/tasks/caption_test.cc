#include "tasks/caption/caption.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "fovea/io.h"
#include "image/image_file.h"
#include "report/seen_image.h"
#include "tasks/page.h"
#include "tasks/train.h"
#include "tests/errors.h"
#include "tests/io/files.h"

namespace fovea::tasks::captions {
namespace {

using test::error_of;
using test::Folder;
using test::has;
using test::read_bytes;
using test::write_bytes;

// ---- Files -------------------------------------------------------------------------------------

TEST(CaptionFiles, LinesAreImagesWithCaptions) {
  const Folder folder;
  write_bytes(folder / "c.tsv", "b.png\ta dog\na.png\ta cat\nb.png\ttwo dogs\n");
  const auto all = read_captions(folder / "c.tsv");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "b.png");
  EXPECT_EQ(all[0].captions, (std::vector<std::string>{"a dog", "two dogs"}));
  EXPECT_EQ(all[0].side, Side::any);
}

TEST(CaptionFiles, FlickrNumbersItsCaptions) {
  const Folder folder;
  write_bytes(folder / "t.txt", "10.jpg#0\ta child .\n10.jpg#1\ta girl .\n11#x.jpg#0\ta dog .\n");
  const auto all = read_captions(folder / "t.txt");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "10.jpg");
  EXPECT_EQ(all[0].captions.size(), 2u);
  EXPECT_EQ(all[1].name, "11#x.jpg");
}

TEST(CaptionFiles, CocoListsImagesAndAnnotations) {
  const Folder folder;
  write_bytes(folder / "c.json",
              R"({"images":[{"id":7,"file_name":"x.jpg"},{"id":3,"file_name":"y.jpg"}],
                  "annotations":[{"image_id":3,"caption":"one\n"},{"image_id":3,"caption":"two"}]})");
  const auto all = read_captions(folder / "c.json");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].name, "y.jpg");
  EXPECT_EQ(all[0].captions, (std::vector<std::string>{"one", "two"}));
}

TEST(CaptionFiles, KarpathySaysWhichSideAnImageIsOf) {
  const Folder folder;
  write_bytes(folder / "k.json",
              R"({"images":[{"filename":"x.jpg","filepath":"val","split":"val",
                             "sentences":[{"raw":"a dog"}]},
                            {"filename":"y.jpg","split":"restval","sentences":[{"raw":"a cat"}]},
                            {"filename":"z.jpg","split":"test","sentences":[{"raw":"a cow"}]}]})");
  const auto all = read_captions(folder / "k.json");
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].name, "val/x.jpg");
  EXPECT_EQ(all[0].side, Side::valid);
  EXPECT_EQ(all[1].side, Side::train);
  EXPECT_EQ(all[2].side, Side::test);
}

TEST(CaptionFiles, WhatIsWrongIsNamed) {
  const Folder folder;
  const auto error = [&](const std::string& json) {
    write_bytes(folder / "x.json", json);
    return error_of([&] { read_captions(folder / "x.json"); });
  };
  EXPECT_TRUE(has(error("{"), "is not JSON"));
  EXPECT_TRUE(has(error("{}"), "no \"images\""));
  EXPECT_TRUE(has(error(R"({"images":[{}]})"), "neither \"annotations\""));
  EXPECT_TRUE(has(error(R"({"images":[{"id":1}],"annotations":[]})"), "no \"file_name\""));
  EXPECT_TRUE(has(error(R"({"images":[],"annotations":[{"image_id":1,"caption":"a"}]})"),
                  "image 1, which is not listed"));
  EXPECT_TRUE(
      has(error(R"({"images":[{"id":1,"file_name":2}],"annotations":[]})"), "is not a text"));
  EXPECT_TRUE(has(error(R"({"images":[],"annotations":[]})"), "has no captions"));
  write_bytes(folder / "x.tsv", "a.png\tone\nb.png\tone\ttwo\n");
  EXPECT_TRUE(
      has(error_of([&] { read_captions(folder / "x.tsv"); }), "x.tsv:2: 3 columns, expected"));
  write_bytes(folder / "x.tsv", "a.png one\n");
  EXPECT_TRUE(has(error_of([&] { read_captions(folder / "x.tsv"); }),
                  "x.tsv:1: expected image<TAB>caption"));
}

// ---- A run -------------------------------------------------------------------------------------

Given tiny() {
  return {{"examples", "80"},    {"features", "8"}, {"hidden", "12"},
          {"embedding", "6"},    {"stride", "8"},   {"depth", "0"},
          {"batch-images", "8"}, {"epochs", "1"},   {"warmup", "2"}};
}

Given of_own_images(const std::string& data, const std::string& epochs) {
  Given options = tiny();
  options.erase("examples");
  options.insert({{"data", data},
                  {"height", "16"},
                  {"width", "16"},
                  {"min-count", "1"},
                  {"rate", "0.01"},
                  {"dropout", "0"},
                  {"doubly", "0"},
                  {"valid-share", "0.2"},
                  {"test-share", "0.2"}});
  options["epochs"] = epochs;
  return options;
}

const RunFolder& trained_run() {
  static const Folder folder;
  static const RunFolder run = [] {
    const RunFolder at(folder / "run");
    train_run(task_caption, at, *config_from(task_caption, tiny()), Existing::refuse, {});
    return at;
  }();
  return run;
}

TEST(CaptionRun, ScoresWordsAndWhereTheyPoint) {
  const auto run = task_caption.open(trained_run());
  const Evaluation e = run->evaluate({}, EvaluateSettings());
  EXPECT_EQ(e.count, 4);
  EXPECT_EQ(e.unit, "images");
  for (const char* name : {"bleu1", "bleu4", "exact", "loss"}) {
    EXPECT_TRUE(std::isfinite(score_of(e.scores, name))) << name;
  }
  EXPECT_GE(score_of(e.scores, "bleu1"), score_of(e.scores, "bleu4"));
  EXPECT_NE(find_breakdown(e, "objects"), nullptr);
}

TEST(CaptionRun, PredictsForFilesAndScenes) {
  const Folder folder;
  write_bytes(folder / "photo.png",
              image::to_png({30, 50, 3, std::vector<float>(30 * 50 * 3, 0.5f)}));
  const auto run = task_caption.open(trained_run());
  const std::vector<Input> inputs = {typed_input(task_caption, folder / "photo.png"),
                                     Own{"scene", 3}};
  const auto all = run->predict(inputs, PredictSettings(), {.maps = Maps::keep});
  ASSERT_EQ(all.size(), 2u);
  for (const Predictions& n_best : all) {
    ASSERT_EQ(n_best.size(), 1u);
    ASSERT_EQ(n_best[0].pictures.size(), 1u);
    const auto& seen = n_best[0].pictures[0].get<report::SeenImage>();
    EXPECT_EQ(seen.rows, 8);
    EXPECT_EQ(seen.image.height, 64);
    for (const auto& look : seen.looks) EXPECT_EQ(look.weights.size(), 64u);
  }
  const auto error = [&](const std::string& name) {
    return error_of([&] { typed_input(task_caption, name); });
  };
  EXPECT_TRUE(has(error("scene:x"), "'scene:x': expected a number"));
  EXPECT_TRUE(has(error("none.png"), "none.png: No such file"));
}

TEST(CaptionRun, ThePageShowsImages) {
  const std::string html = read_bytes(trained_run() / "report.html");
  EXPECT_TRUE(has(html, "class=\"seen\""));
  EXPECT_TRUE(has(html, "data:image/png;base64,"));
  EXPECT_TRUE(has(html, "Scores by objects"));
}

TEST(CaptionRun, WithoutAttentionHasNothingToShow) {
  const Folder folder;
  Given options = tiny();
  options["context"] = "fixed";
  const RunFolder at(folder / "run");
  train_run(task_caption, at, *config_from(task_caption, options), Existing::refuse, {});
  const auto run = task_caption.open(at);
  const auto all =
      run->predict(std::vector<Input>{Own{"scene", 1}}, PredictSettings(), {.maps = Maps::keep});
  EXPECT_TRUE(all[0][0].pictures.empty());
  EXPECT_TRUE(std::isnan(score_of(run->evaluate({}, EvaluateSettings()).scores, "pointing")));
}

// Images of one's own, one of them broken; and the run judged by its file.
TEST(CaptionRun, LearnsFromAFileOfTheUsers) {
  const Folder folder;
  std::string lines;
  for (int i = 0; i < 40; ++i) {
    const std::string name = "i" + std::to_string(i) + ".png";
    const float grey = i % 2 == 0 ? 0.1f : 0.9f;
    write_bytes(folder / name, image::to_png({20, 20, 1, std::vector<float>(400, grey)}));
    lines += name + "\t" + (i % 2 == 0 ? "a dark wall" : "a light wall") + "\n";
  }
  write_bytes(folder / "i7.png", "broken");
  write_bytes(folder / "c.tsv", lines);
  const Given options = of_own_images(folder / "c.tsv", "25");
  std::vector<std::string> said;
  Watching watching;
  watching.say = [&](const std::string& line) { said.push_back(line); };
  const RunFolder at(folder / "run");
  const Trained t =
      train_run(task_caption, at, *config_from(task_caption, options), Existing::refuse, watching);
  ASSERT_GE(said.size(), 3u);
  EXPECT_TRUE(has(said[0], "i7.png"));
  EXPECT_EQ(said[1], "1 of 40 images were left out");
  EXPECT_GT(score_of(t.test.scores, "bleu1"), 60);
  const auto run = task_caption.open(at);
  const Evaluation e = run->evaluate({.file = folder / "c.tsv"}, EvaluateSettings());
  EXPECT_EQ(e.count, 39);
  ASSERT_EQ(e.warnings.size(), 2u);
  EXPECT_TRUE(has(e.warnings[0], "i7.png"));
}

// How long a caption is follows from its image: in batches of one length all images are of one
// grey, which normalising takes away. With those, a third of the captions were right.
TEST(CaptionRun, LearnsFromImagesThatTellHowLongTheirCaptionsAre) {
  const Folder folder;
  std::string lines;
  for (int i = 0; i < 64; ++i) {
    const std::string name = "i" + std::to_string(i) + ".png";
    const float grey = i % 2 == 0 ? 0.3f : 0.7f;
    write_bytes(folder / name, image::to_png({16, 16, 1, std::vector<float>(256, grey)}));
    lines += name + "\t" + (i % 2 == 0 ? "night" : "a very bright day") + "\n";
  }
  write_bytes(folder / "c.tsv", lines);
  const Given options = of_own_images(folder / "c.tsv", "20");
  const RunFolder at(folder / "run");
  const Trained t = train_run(task_caption, at, *config_from(task_caption, options),
                              Existing::refuse, Watching());
  EXPECT_EQ(score_of(t.test.scores, "exact"), 100);
}

// A run of before there was the setting is repeated as it was; other files of settings say a part.
TEST(CaptionConfigs, OfAFormerRunAreRepeatedAsTheyWere) {
  const Folder folder;
  const auto like = [&](const std::string& json, const Given& typed = {}) {
    write_bytes(folder / "config.json", json);
    return config_in(folder / "config.json", task_caption, typed)->train.like_lengths;
  };
  const std::string run = R"({"task": "caption", "fingerprint": "0123456789abcdef"})";
  EXPECT_TRUE(like(run));
  EXPECT_FALSE(like(run, {{"data", "other.tsv"}}));  // a new run, like it
  EXPECT_FALSE(like(R"({"task": "caption"})"));
}

// Batches of like lengths have statistics of their own, and a convolution normalises by them.
TEST(CaptionConfigs, MixLengthsWhereABatchIsNormalised) {
  const auto like = [](const Given& options) {
    return config_from(task_caption, options)->train.like_lengths;
  };
  EXPECT_FALSE(like({}));
  EXPECT_FALSE(like({{"data", "c.tsv"}}));
  EXPECT_FALSE(like({{"data", "c.tsv"}, {"depth", "0"}}));
  EXPECT_TRUE(like({{"data", "c.tsv"}, {"places", "p.safetensors"}}));
  EXPECT_TRUE(like({{"encoder", "vit"}}));
  EXPECT_FALSE(like({{"data", "c.tsv"}, {"places", "p.safetensors"}, {"depth", "1"}}));
  EXPECT_TRUE(like({{"like-lengths", "true"}}));
  EXPECT_TRUE(as_saved(task_caption, *config_from(task_caption, {{"like-lengths", "true"}}))
                  ->train.like_lengths);
  // A run of a former version goes on as it began.
  nlohmann::ordered_json former = to_json(*config_from(task_caption, {}));
  EXPECT_EQ(former.erase("like-lengths"), 1u);
  CaptionConfig resumed;
  from_json(former, resumed, "here");
  EXPECT_TRUE(resumed.train.like_lengths);
}

// Images that all look alike; what another network made of them tells them apart.
struct GivenPlaces {
  Folder folder;
  GivenPlaces() {
    std::string lines;
    Tensors places;
    for (int i = 0; i < 40; ++i) {
      const std::string name = "in/i" + std::to_string(i) + ".png";
      lines += name + "\t" + (i % 2 == 0 ? "a dark wall" : "a light wall") + "\n";
      places.emplace(name, Tensor::full({6, 2, 3}, i % 2 == 0 ? -1.0f : 1.0f));
    }
    std::filesystem::create_directory(folder / "in");
    for (const auto& [name, of] : places) {
      write_bytes(folder / name, image::to_png({20, 20, 1, std::vector<float>(400, 0.5f)}));
    }
    places.erase("in/i7.png");
    save_safetensors(folder / "places.safetensors", places);
    write_bytes(folder / "c.tsv", lines);
  }
  Given options() const {
    return {{"data", folder / "c.tsv"},
            {"places", folder / "places.safetensors"},
            {"hidden", "12"},
            {"embedding", "6"},
            {"batch-images", "8"},
            {"epochs", "25"},
            {"min-count", "1"},
            {"rate", "0.01"},
            {"dropout", "0"},
            {"doubly", "0"},
            {"warmup", "2"},
            {"valid-share", "0.2"},
            {"test-share", "0.2"}};
  }
};

TEST(CaptionPlaces, StandForTheConvolution) {
  const GivenPlaces given;
  std::vector<std::string> said;
  Watching watching;
  watching.say = [&](const std::string& line) { said.push_back(line); };
  const RunFolder at(given.folder / "run");
  const Trained t = train_run(task_caption, at, *config_from(task_caption, given.options()),
                              Existing::refuse, watching);
  ASSERT_GE(said.size(), 3u);
  EXPECT_TRUE(has(said[0], "no places of 'in/i7.png'"));
  EXPECT_EQ(said[1], "1 of 40 images were left out");
  EXPECT_EQ(score_of(t.test.scores, "exact"), 100);

  const auto run = task_caption.open(at);
  const std::vector<Input> names = {typed_input(task_caption, given.folder / "in/i2.png"),
                                    typed_input(task_caption, given.folder / "in/i3.png")};
  const auto all = run->predict(names, PredictSettings(), {.maps = Maps::keep});
  EXPECT_EQ(all[0][0].text, "a dark wall");
  EXPECT_EQ(all[1][0].text, "a light wall");
  EXPECT_EQ(all[0][0].pictures.at(0).get<report::SeenImage>().columns, 3);
  const Inside inside = run->inside(names[0]).value();
  EXPECT_EQ(inside.x.shape(), (Shape{6, 2, 3}));
  EXPECT_EQ(inside.inputs.size(), 6u);
  EXPECT_EQ(inside.log_odds(inside.x.unsqueeze(0)).size(1), int64_t(inside.outputs.size()));

  // Other images, and their own file.
  Tensors turned = load_safetensors(given.folder / "places.safetensors");
  for (auto& [name, places] : turned) places = -places;
  save_safetensors(given.folder / "turned.safetensors", turned);
  PredictSettings how;
  how.places = given.folder / "turned.safetensors";
  EXPECT_EQ(run->predict(names, how, {})[0][0].text, "a light wall");
  EXPECT_TRUE(has(error_of([&] { task_caption.open(trained_run())->predict(names, how, {}); }),
                  "sees the images themselves"));
  EvaluateSettings judged;
  judged.places = how.places;
  const Evaluation e = run->evaluate({.file = given.folder / "c.tsv"}, judged);
  EXPECT_EQ(score_of(e.scores, "exact"), 0);
  EXPECT_EQ(e.count, 39);
  EXPECT_EQ(e.warnings.size(), 2u);

  EXPECT_EQ(changed_data(*task_caption.open(at)), "");
  save_safetensors(given.folder / "places.safetensors", turned);
  EXPECT_NE(changed_data(*task_caption.open(at)), "");
}

TEST(CaptionPlaces, WhatDoesNotFitIsNamed) {
  const GivenPlaces given;
  const auto error = [&](const Tensors& places, Given options) {
    save_safetensors(given.folder / "places.safetensors", places);
    return error_of([&] { task_caption.begin(*config_from(task_caption, options), nullptr); });
  };
  const Tensor one = Tensor::zeros({6, 2, 3});
  EXPECT_TRUE(has(error({{"in/i1.png", Tensor::zeros({6, 2})}}, given.options()),
                  "'in/i1.png' is [6, 2], expected [features, rows, columns]"));
  EXPECT_TRUE(has(error({{"a", one}, {"b", Tensor::zeros({6, 3, 3})}}, given.options()),
                  "all must be of one shape"));
  EXPECT_TRUE(has(error({}, given.options()), "has no tensors"));
  EXPECT_TRUE(has(error({{"another.png", one}}, given.options()), "none of the 40 images"));
  Given no_captions = given.options();
  no_captions.erase("data");
  EXPECT_TRUE(has(error({{"a", one}}, no_captions), "name the file of their captions"));
}

TEST(ObjectHits, CountsWordsInTheirBoxes) {
  CaptionModel m = load_caption_model(trained_run());
  const CaptionedImage x = scene_of(m.config, 1);
  const Scene& scene = *x.scene;
  models::Decoded d;
  d.tokens = m.words.encode(scene.caption());
  ASSERT_EQ(d.tokens.size(), scene.words.size());
  const auto place = [&](double px, double py) {
    return static_cast<int64_t>(py / 8) * 8 + static_cast<int64_t>(px / 8);
  };
  int64_t named = 0;
  for (const int64_t object : scene.names) {
    named += object >= 0;
    const Box& b = scene.objects[static_cast<size_t>(std::max<int64_t>(object, 0))].box;
    d.places.push_back(place(double(b.left + b.right) / 2, double(b.top + b.bottom) / 2));
  }
  const ObjectHits right = object_hits(m, scene, d);
  EXPECT_EQ(right.words, named);
  EXPECT_EQ(right.hits, named);
  EXPECT_EQ(right.percent(), 100);
  for (int64_t& p : d.places) p = 0;  // the first corner, where nothing lies
  EXPECT_EQ(object_hits(m, scene, d).hits, 0);
  EXPECT_TRUE(std::isnan(ObjectHits().percent()));
}

}  // namespace
}  // namespace fovea::tasks::captions
