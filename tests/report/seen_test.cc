#include "report/seen_image.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "image/image_file.h"
#include "report/report.h"
#include "tests/errors.h"
#include "tests/image/pixels.h"
#include "tests/io/files.h"

namespace fovea::report {
namespace {

using test::error_of;
using test::has;

SeenImage some_seen() {
  SeenImage seen{.title = "a <red> circle",
                 .image = {4, 6, 3, std::vector<float>(72, 1.0f)},
                 .rows = 2,
                 .columns = 3};
  seen.image.pixels[0] = 0.0f;
  seen.looks = {{"red", {0, 0, 0, 0, 0.2f, 0.8f}}, {"circle", {1, 0, 0, 0, 0, 0}, {{0, 0, 2, 2}}}};
  return seen;
}

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
  return n;
}

std::string from_base64(const std::string& text) {
  static const std::string digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int have = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(digits.find(c));
    have += 6;
    if (have >= 8) bytes += static_cast<char>(bits >> (have -= 8) & 255);
  }
  return bytes;
}

TEST(SeenImage, IsASheetWithThePixelsInside) {
  const std::string svg = to_svg({some_seen()});
  EXPECT_EQ(count(svg, "<image"), 3);
  EXPECT_EQ(count(svg, "<rect"), 2);  // the paper and a box
  EXPECT_TRUE(has(svg, "a &lt;red&gt; circle"));
  const std::string mark = "data:image/png;base64,";
  const size_t from = svg.find(mark) + mark.size();
  const image::Image inside =
      image::decoded(from_base64(svg.substr(from, svg.find('"', from) - from)), "inside");
  EXPECT_EQ(inside.pixels, some_seen().image.pixels);
}

TEST(SeenImage, IsDarkWhereItWasNotLookedAt) {
  const test::Folder folder;
  write(folder / "a.png", {some_seen()});
  const image::Pixels all = image::pixels_of(test::read_bytes(folder / "a.png"));
  ASSERT_GT(all.width(), 0);
  SeenImage bright = some_seen();
  for (auto& look : bright.looks) look.weights.assign(6, 1.0f);
  write(folder / "b.png", {bright});
  EXPECT_GT(all.dark(), image::pixels_of(test::read_bytes(folder / "b.png")).dark() + 1000);
}

TEST(SeenImage, SaysHowMuchAndHowUndecided) {
  const std::string svg = to_svg({some_seen()});
  EXPECT_TRUE(has(svg, ">maximum 0.8<") && has(svg, ">entropy 0.5<"))
      << svg;  // −0.2 log 0.2 − 0.8 log 0.8
  EXPECT_TRUE(has(svg, ">maximum 1<") && has(svg, ">entropy 0<"));
  EXPECT_TRUE(has(svg, "6 places; equal weights: 0.17, entropy 1.79 nats"));
  EXPECT_TRUE(has(svg, "prefers-color-scheme:dark"));
  const std::string html = to_html({.title = "t", .sections = {{"s", {Pictures{{some_seen()}}}}}});
  EXPECT_TRUE(has(html, ">maximum 0.8<"));
  EXPECT_FALSE(has(html, "class=\"paper\""));
}

TEST(SeenImage, OutlinesThePlacesWithHalfOfTheLargestWeight) {
  SeenImage seen = some_seen();
  seen.looks = {{"two", {0, 0, 0, 0, 0.4f, 0.8f}}};  // the last two, side by side
  const std::string svg = to_svg({seen});
  EXPECT_TRUE(has(svg, "d=\"M1 1h1M1 1v1M2 1h1M3 1v1M1 2h1M2 2h1\"")) << svg;
  EXPECT_TRUE(has(svg, "stroke-width=\"0.034\"")) << svg;  // of cells that are 44 wide
}

TEST(SeenImage, WeightsBetweenPlacesFitThem) {
  SeenImage seen = some_seen();
  seen.between.assign(36, 1.0f / 6);
  EXPECT_NO_THROW(Picture{seen});
  seen.between.pop_back();
  EXPECT_TRUE(has(error_of([&] { Picture{seen}; }), "35 weights between 2 × 3 places"));
}

TEST(SeenImage, IsWrittenAsJson) {
  const auto j = nlohmann::json::parse(to_json(some_seen()));
  EXPECT_EQ(j["rows"], 2);
  EXPECT_EQ(j["width"], 6);
  ASSERT_EQ(j["looks"].size(), 2u);
  EXPECT_EQ(j["looks"][1]["label"], "circle");
  EXPECT_FLOAT_EQ(j["looks"][0]["weights"][1][2].get<float>(), 0.8f);
  const test::Folder folder;
  write(folder / "two.json", {some_seen(), some_seen()});
  EXPECT_EQ(nlohmann::json::parse(test::read_bytes(folder / "two.json")).size(), 2u);
}

TEST(SeenImage, HasTwoColoursWhereWeightsAreSigned) {
  SeenImage seen = some_seen();
  seen.scale = Scale::around_zero;
  seen.looks = {{"against", {-1, 0, 0, 0, 0, 0.5f}, {{1, 2, 3, 4}}}};
  const std::string svg = to_svg({seen});
  EXPECT_EQ(count(svg, "<path"), 2);  // a cell for it and one against it; nothing where it is 0
  EXPECT_TRUE(has(svg, "M0 0h1") && has(svg, "M2 1h1") && !has(svg, "M1 0h1"));
  EXPECT_EQ(count(svg, "<rect"), 3);  // the box, the veil and the paper
  const auto j = nlohmann::json::parse(to_json(seen));
  EXPECT_EQ(j["looks"][0]["boxes"][0], (std::vector<double>{1, 2, 3, 4}));
  EXPECT_TRUE(has(to_text(seen, Ink::plain, 80), "−█····"));
}

TEST(SeenImage, StandsSideBySideInATerminal) {
  const std::string text = to_text(some_seen(), Ink::plain, 80);
  EXPECT_EQ(text, "a <red> circle\nred     circle\n······  ██····\n··▒▒██  ······\n");
  EXPECT_EQ(count(to_text(some_seen(), Ink::plain, 10), "\n"), 8);  // one below the other
  SeenImage fine = some_seen();
  fine.rows = fine.columns = 40;
  fine.looks = {{"x", std::vector<float>(1600, 1.0f)}};
  EXPECT_EQ(count(to_text(fine, Ink::plain, 80), "\n"), 16);  // a title, a name, and 40/3 rows
}

TEST(SeenImage, OfAnotherGridIsRefused) {
  SeenImage seen = some_seen();
  seen.looks[0].weights.pop_back();
  EXPECT_TRUE(has(error_of([&] { to_svg({seen}); }), "'red' has 5 weights for 2 × 3 places"));
  // 4011754669456198415 · 1007 is 1 in 64 bits.
  seen.looks = {{"one", {1.0f}}};
  seen.rows = 4011754669456198415;
  seen.columns = 1007;
  EXPECT_TRUE(has(error_of([&] { Picture{seen}; }), "'one' has 1 weights"));
}

TEST(SeenImage, IsShownInATerminalAndOnAPage) {
  const std::string text = to_text(some_seen(), Ink::plain, 80);
  EXPECT_TRUE(has(text, "red"));
  EXPECT_TRUE(has(text, "circle"));
  Page page{.title = "t"};
  SeenImage said = some_seen();
  said.title = "said & done";
  page.sections.push_back({"Examples", {Pictures{{said}}}});
  const std::string html = to_html(page);
  EXPECT_TRUE(has(html, "said &amp; done"));
  EXPECT_EQ(count(html, "<image"), 3);
}

}  // namespace
}  // namespace fovea::report
