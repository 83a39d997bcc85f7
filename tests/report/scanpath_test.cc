#include "report/scanpath.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "io/files.h"
#include "report/report.h"
#include "tests/errors.h"

namespace fovea::report {
namespace {

using test::has;

Scanpath path() {
  image::Image image{4, 6, 1, std::vector<float>(24, 0.0f)};
  image.pixels[8] = 1.0f;
  image.pixels[9] = 0.5f;
  return {.title = "a <7> & more",
          .image = image,
          .glimpses = {{3, 2, {2, 4}, {{2, 2, 1, {0, 1, 0.5, 0}}, {2, 2, 1, {0, 0, 0, 0}}}, "1"},
                       {6, 0, {2, 4}, {{2, 2, 1, {0, 0, 0, 0}}, {2, 2, 1, {1, 1, 1, 1}}}, "<7>"}}};
}

TEST(Scanpath, IsDrawnInLetters) {
  const std::string text = to_text(path(), Ink::plain);
  EXPECT_TRUE(has(text, "a <7> & more\n"));
  EXPECT_TRUE(has(text, "@"));
  EXPECT_TRUE(has(text, "\n           2\n"));  // the second glimpse, kept inside
  EXPECT_TRUE(has(text, " 1  at   3.0,   2.0  1\n"));
  EXPECT_TRUE(has(to_text(path(), Ink::colour), "\x1b["));
  EXPECT_FALSE(to_text(path(), Ink::plain, 1).empty());
}

TEST(Scanpath, IsAFileOfThreeKinds) {
  const test::Folder folder;
  write(folder / "a.svg", {path(), path()});
  const std::string svg = test::read_bytes(folder / "a.svg");
  EXPECT_TRUE(has(svg, "a &lt;7&gt; &amp; more"));
  EXPECT_FALSE(has(svg, "<7>"));
  EXPECT_TRUE(has(svg, "#ffffff"));
  write(folder / "a.png", {path()});
  EXPECT_TRUE(test::read_bytes(folder / "a.png").starts_with("\x89PNG"));
  write(folder / "a.json", {path()});
  const auto json = nlohmann::json::parse(test::read_bytes(folder / "a.json"));
  EXPECT_EQ(json["glimpses"][1]["said"], "<7>");
  EXPECT_EQ(json["glimpses"][0]["seen"][0]["pixels"][1], 1.0);
  EXPECT_EQ(json["image"]["width"], 6);
  EXPECT_TRUE(has(test::error_of([&] { write(folder / "a.txt", {path()}); }), ".txt"));
  EXPECT_TRUE(
      has(test::error_of([&] { write(folder / "b.svg", std::vector<Picture>()); }), "no picture"));
}

TEST(Scanpath, CountsWhereOtherWaysWent) {
  Scanpath many = path();
  EXPECT_FALSE(has(to_svg({many}), "class=\"density\""));
  many.others = {{{0.2, 0.2}, {5.9, 3.9}}, {{0.9, 0.9}, {6, 4}}, {{-1, 9}}};
  const Density d = density_of(many);
  EXPECT_EQ(d.rows, 4);
  EXPECT_EQ(d.columns, 6);
  EXPECT_EQ(d.glimpses[0], 2);
  EXPECT_EQ(d.glimpses[23], 2);
  EXPECT_EQ(d.glimpses[18], 1);  // kept inside
  EXPECT_EQ(d.most, 2);
  const std::string svg = to_svg({many});
  EXPECT_TRUE(has(svg, "class=\"density\""));
  EXPECT_TRUE(has(svg, "green: 3 ways, 2 at most"));
  EXPECT_EQ(nlohmann::json::parse(to_json(many))["others"][1][1][0], 6);
}

TEST(Scanpath, SaysHowLikelyEachClassWas) {
  Scanpath sure = path();
  sure.classes = {"1", "<7>"};
  sure.glimpses[0].shares = {0.75f, 0.25f};
  sure.glimpses[1].shares = {0.125f, 0.875f};
  EXPECT_TRUE(has(to_svg({sure}), ">0.88</text>"));
  EXPECT_EQ(nlohmann::json::parse(to_json(sure))["glimpses"][0]["shares"][1], 0.25);
  sure.classes.pop_back();
  EXPECT_TRUE(has(test::error_of([&] { Picture{sure}; }), "2 shares of 1 classes"));
}

TEST(Scanpath, StandsOnAPage) {
  const std::string html = to_html({.title = "t", .sections = {{"s", {Pictures{{path()}}}}}});
  EXPECT_TRUE(has(html, "class=\"scan\""));
  EXPECT_TRUE(has(html, "a &lt;7&gt; &amp; more"));
  EXPECT_FALSE(has(html, "<7>"));
}

TEST(Scanpath, RefusesWhatIsNoGreyImage) {
  Scanpath broken = path();
  broken.image.pixels.pop_back();
  EXPECT_TRUE(has(test::error_of([&] { Picture{broken}; }), "23 pixels"));
  broken = path();
  broken.glimpses[0].seen[0].channels = 3;
  EXPECT_TRUE(has(test::error_of([&] { Picture{broken}; }), "grey"));
}

}  // namespace
}  // namespace fovea::report
