#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "explorer/answers.h"
#include "explorer/asked.h"
#include "image/image_file.h"
#include "io/base64.h"
#include "report/packed.h"
#include "report/scanpath.h"
#include "report/seen_image.h"
#include "tasks/train.h"
#include "tests/errors.h"
#include "tests/explorer/here.h"
#include "tests/io/files.h"

// What is asked of runs that see: images in, and where they were looked at.
namespace fovea::explorer {
namespace {

using test::error_of;
using test::Folder;
using test::has;

void train_hardly(const Folder& folder, const std::string& task, const tasks::Given& typed) {
  const tasks::Task& t = tasks::task(task);
  train_run(t, tasks::RunFolder(folder / task), *tasks::config_from(t, typed),
            tasks::Existing::refuse, {});
}

const Folder& trained_to_see() {
  static const Folder folder;
  static const bool once = [] {
    train_hardly(folder, "caption",
                 {{"examples", "40"},
                  {"hidden", "8"},
                  {"features", "8"},
                  {"embedding", "8"},
                  {"steps", "3"},
                  {"seed", "1"},
                  {"stride", "8"},
                  {"longest", "12"}});
    train_hardly(folder, "image",
                 {{"examples", "40"}, {"features", "8"}, {"blocks", "1"}, {"steps", "2"}});
    train_hardly(folder, "glimpse",
                 {{"examples", "200"}, {"hidden", "16"}, {"parts", "8"}, {"steps", "3"}});
    return true;
  }();
  EXPECT_TRUE(once);
  return folder;
}

struct Seeing : testing::Test {
  Runs runs{{(trained_to_see() / "").string()}};
  Training training{trained_to_see() / "more"};
  Here caller;

  Response ask(const std::string& path, const Json& body) {
    const bool get = body.is_null();
    Request r{.method = get ? "GET" : "POST", .path = path};
    if (!get) r.body = body.dump();
    return answer(r, caller, runs, training);
  }
  Json json(const std::string& path, const Json& body = {}) {
    const Response r = ask(path, body);
    EXPECT_EQ(r.status, 200) << r.body;
    return Json::parse(r.body);
  }
  Json best(const std::string& run, const std::string& input, const Json& settings = {}) {
    Json asked = {{"input", input}};
    if (!settings.is_null()) asked["settings"] = settings;
    return json("/api/runs/" + run + "/predict", asked)["predictions"][0];
  }
  std::string drawn(const std::string& format, const Json& body) {
    const Response r = ask("/api/draw/" + format, body);
    EXPECT_EQ(r.status, 200) << r.body;
    return r.body;
  }
};

float sum(const std::vector<float>& v, size_t from, size_t n) {
  float s = 0;
  for (size_t i = from; i < from + n; ++i) s += v[i];
  return s;
}

std::string png_of(int64_t side) {
  image::Image image{side, side, 3, {}};
  for (int64_t i = 0; i < side * side; ++i) {
    for (int c = 0; c < 3; ++c) {
      image.pixels.push_back(static_cast<float>((i * (c + 3)) % side) / static_cast<float>(side));
    }
  }
  return image::to_png(image);
}

TEST_F(Seeing, ExamplesCanBeChosenBySight) {
  for (const char* run : {"caption", "image", "glimpse"}) {
    const Json about = json(std::string("/api/runs/") + run);
    ASSERT_FALSE(about["examples"].empty()) << run;
    for (const Json& e : about["examples"]) {
      const image::Image image =
          image::decoded(from_base64(e.at("image").get<std::string>()), "example");
      EXPECT_LE(image.width, 96) << run;
    }
  }
}

TEST_F(Seeing, WordsComeWithThePlacesTheyLookedAt) {
  const Json p = best("caption", "scene:3");
  ASSERT_EQ(p["pictures"].size(), 1u);
  const report::Picture picture = report::unpacked(p["pictures"][0]);
  const auto& seen = picture.get<report::SeenImage>();
  EXPECT_EQ(seen.rows, 8);
  EXPECT_EQ(seen.image.width, 64);
  ASSERT_FALSE(seen.looks.empty());
  for (const auto& look : seen.looks) EXPECT_NEAR(sum(look.weights, 0, 64), 1.0f, 1e-4f);
}

TEST_F(Seeing, PicturesAreDrawnByTheCodeBehindTheCommands) {
  const Json one = best("caption", "scene:3")["pictures"][0];
  const std::vector<report::Picture> seen = {report::unpacked(one)};
  const Json body = {{"pictures", Json::array({one})}};
  EXPECT_EQ(drawn("svg", body), report::to_svg(seen));
  EXPECT_EQ(drawn("png", body), report::to_png(seen));
  EXPECT_EQ(Json::parse(drawn("json", body))[0], Json::parse(report::to_json(seen[0])));
  EXPECT_TRUE(has(drawn("csv", body), "\"8, 8\","));
  EXPECT_TRUE(has(drawn("html", body), "class=\"seen\""));
  Json torn = one;
  torn["rows"] = 7;
  EXPECT_EQ(ask("/api/draw/svg", {{"pictures", Json::array({torn})}}).status, 422);
  torn = one;
  torn["image"] = to_base64("no image");
  EXPECT_EQ(ask("/api/draw/svg", {{"pictures", Json::array({torn})}}).status, 422);
}

TEST_F(Seeing, AFileIsTakenAndABrokenOneIsNamed) {
  const auto sent = [&](const std::string& run, const std::string& bytes) {
    return ask("/api/runs/" + run + "/predict",
               {{"name", "../a photo.png"}, {"file", to_base64(bytes)}});
  };
  for (const char* run : {"caption", "image", "glimpse"}) {
    const Response good = sent(run, png_of(70));
    ASSERT_EQ(good.status, 200) << good.body;
    EXPECT_FALSE(Json::parse(good.body)["predictions"].empty());
    for (const std::string& bytes :
         {std::string("no image"), png_of(70).substr(0, 60), std::string()}) {
      const Response bad = sent(run, bytes);
      EXPECT_EQ(bad.status, 422);
      const std::string error = Json::parse(bad.body)["error"];
      EXPECT_TRUE(has(error, "a_photo.png")) << error;
      EXPECT_EQ(error.find('\n'), std::string::npos) << error;
    }
  }
}

// Whatever lies there, the answer is the same: nobody learns what this machine has.
TEST_F(Seeing, NoStringBecomesAPath) {
  const Folder folder;
  test::write_bytes(folder / "photo.png", png_of(70));
  test::write_bytes(folder / "rows.csv", "1,0,0,0,1\n0,0,0,1,0\n");
  ASSERT_EQ(::mkfifo((folder / "pipe.png").c_str(), 0600), 0);
  const std::vector<std::string> paths = {
      folder / "photo.png", folder / "rows.csv", folder / "rows.csv:1", folder / "pipe.png",
      folder / "none.png",  "/dev/ptmx",         "/etc/passwd",         "../caption/config.json"};
  for (const char* run : {"caption", "image", "glimpse"}) {
    for (const char* what : {"predict", "explain", "hold", "heads", "without"}) {
      std::string first;
      for (const std::string& path : paths) {
        const Response r = ask(std::string("/api/runs/") + run + "/" + what,
                               {{"input", path}, {"by", {"jacobian"}}, {"off", Json::array()}});
        EXPECT_EQ(r.status, 422) << path;
        if (first.empty()) first = r.body;
        EXPECT_EQ(r.body, first) << path;
        EXPECT_FALSE(has(r.body, path)) << r.body;
      }
    }
  }
}

TEST_F(Seeing, SettingsNameNoFiles) {
  EXPECT_FALSE(json("/api/runs/caption")["options"].contains("places"));
  const Response r = ask("/api/runs/caption/predict",
                         {{"input", "scene:1"}, {"settings", {{"places", "/etc/passwd"}}}});
  EXPECT_EQ(r.status, 422);
  EXPECT_TRUE(has(r.body, "no field 'places'")) << r.body;
}

TEST_F(Seeing, ExamplesOfSetsAreNamedByTheirNumber) {
  for (const char* run : {"caption", "image", "glimpse"}) {
    EXPECT_FALSE(best(run, "test:0")["text"].is_null());
    EXPECT_EQ(ask(std::string("/api/runs/") + run + "/predict", {{"input", "test:100000"}}).status,
              422);
  }
}

TEST_F(Seeing, OtherWaysOfAskingArePicturesToo) {
  EXPECT_FALSE(json("/api/runs/caption")["ways"].empty());
  EXPECT_FALSE(json("/api/runs/image")["ways"].empty());
  EXPECT_TRUE(json("/api/runs/glimpse")["ways"].empty());
  const Json asked = {{"name", "a.png"},
                      {"file", to_base64(png_of(70))},
                      {"by", {"saliency", "occlusion", "gradcam"}}};
  const Json answer = json("/api/runs/image/explain", asked);
  ASSERT_EQ(answer["pictures"].size(), 3u);
  EXPECT_EQ(report::unpacked(answer["pictures"][1]).get<report::SeenImage>().image.width, 48);
  EXPECT_FALSE(answer["agreement"]["rows"].empty());
  EXPECT_EQ(ask("/api/runs/glimpse/explain", {{"input", "test:0"}, {"by", {"saliency"}}}).status,
            422);
}

TEST_F(Seeing, PlacesLookAtEachOther) {
  const Json one = best("image", "pair:3", {{"n-best", 2}})["pictures"][0];
  const size_t places = one["rows"].get<size_t>() * one["columns"].get<size_t>();
  const std::vector<float> between = report::weights_in(one["between"]);
  ASSERT_EQ(between.size(), places * places);
  for (const size_t p : {size_t{0}, size_t{17}, places - 1}) {
    EXPECT_NEAR(sum(between, p * places, places), 1.0f, 1e-4f);
  }
  EXPECT_TRUE(has(one["title"].get<std::string>(), "pair:3"));
}

TEST_F(Seeing, GlimpsesComeWithWhatEachClassWasWorth) {
  const Json one = best("glimpse", "test:0")["pictures"][0];
  EXPECT_TRUE(one["others"].empty());
  EXPECT_TRUE(one["density"].is_null());
  const report::Picture picture = report::unpacked(one);
  const auto& path = picture.get<report::Scanpath>();
  ASSERT_EQ(path.glimpses.size(), 6u);
  for (const auto& g : path.glimpses) {
    ASSERT_EQ(g.shares.size(), path.classes.size());
    EXPECT_NEAR(sum(g.shares, 0, g.shares.size()), 1.0f, 1e-4f);
  }
  const Json body = {{"pictures", Json::array({one})}};
  EXPECT_EQ(drawn("svg", body), report::to_svg({picture}));
  EXPECT_EQ(drawn("png", body), report::to_png({picture}));
  EXPECT_TRUE(has(drawn("csv", body), "picture,glimpse,x,y,side,said,\"0\",\"1\""));
  EXPECT_TRUE(has(drawn("html", body), "class=\"scan\""));
  EXPECT_EQ(Json::parse(drawn("json", body))[0]["glimpses"].size(), 6u);
  Json torn = one;
  torn["glimpses"][0]["shares"] = {0.5};
  EXPECT_EQ(ask("/api/draw/svg", {{"pictures", Json::array({torn})}}).status, 422);
}

TEST_F(Seeing, ManyWaysAreADensity) {
  const Json one = best("glimpse", "test:0", {{"ways", 50}})["pictures"][0];
  ASSERT_EQ(one["others"].size(), 50u);
  EXPECT_EQ(one["others"][0].size(), 5u);  // the first place is no choice
  EXPECT_NE(one["others"][0], one["others"][1]);
  int64_t all = 0, most = 0;
  for (const Json& n : one["density"]["glimpses"]) {
    all += n.get<int64_t>();
    most = std::max(most, n.get<int64_t>());
  }
  EXPECT_EQ(all, 250);
  EXPECT_EQ(one["density"]["most"], most);
  EXPECT_TRUE(has(drawn("svg", {{"pictures", Json::array({one})}}), "class=\"density\""));
}

}  // namespace
}  // namespace fovea::explorer
