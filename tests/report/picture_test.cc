#include "report/drawing.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "errors.h"
#include "image/pixels.h"
#include "report/heatmap.h"
#include "report/label.h"
#include "report/lines.h"
#include "report/malformed.h"
#include "report/report.h"

namespace fovea::report {
namespace {

namespace fs = std::filesystem;
Heatmap words() {
  return {"a <b> & \"c\"",
          {"l’", "été", "</s>"},
          {"the", "summer's", "<&>\"", "end"},
          {1, 0, 0, 0, 0, 0.83f, 0.17f, 0, 0.25f, 0.25f, NAN, 0.25f}};
}

class File {
 public:
  explicit File(const std::string& ending)
      : path_(fs::path(testing::TempDir()) /
              ("fovea_map_" + std::to_string(::getpid()) + "." + ending)) {}
  ~File() { fs::remove(path_); }
  const fs::path& path() const { return path_; }
  std::string read() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  fs::path path_;
};

// How light a colour looks: its luma.
double lightness(Colour c) { return 0.299 * c[0] + 0.587 * c[1] + 0.114 * c[2]; }

TEST(Colour, MoreWeightIsDarkerOnWhiteAndLighterOnBlack) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_GT(lightness(colour_of(i / 100.0, Background::white)),
              lightness(colour_of((i + 1) / 100.0, Background::white)));
    EXPECT_LT(lightness(colour_of(i / 100.0, Background::black)),
              lightness(colour_of((i + 1) / 100.0, Background::black)));
  }
  EXPECT_EQ(colour_of(-1, Background::white), colour_of(0, Background::white));
  EXPECT_EQ(colour_of(7, Background::white), colour_of(1, Background::white));
}

TEST(Heatmap, FullColourIsOneOrTheLargest) {
  EXPECT_EQ(full_weight({"", {"r"}, {"a"}, {0.6f}}), 1.0);
  EXPECT_FLOAT_EQ(static_cast<float>(full_weight({"", {"r"}, {"a"}, {0.2f}})), 0.2f);
  EXPECT_EQ(full_weight({"", {"r"}, {"a"}, {3.0f}}), 3.0);
  EXPECT_EQ(full_weight({"", {"r"}, {"a", "b"}, {NAN, 0.0f}}), 1.0);
  EXPECT_EQ(full_weight(Heatmap{}), 1.0);
}

TEST(Svg, IsWellFormedAndEscaped) {
  const std::string svg = to_svg({words()});
  EXPECT_EQ(malformed(svg), "");
  EXPECT_NE(svg.find("a &lt;b&gt; &amp; &quot;c&quot;"), std::string::npos);
  EXPECT_NE(svg.find("&lt;/s&gt;"), std::string::npos);
}

TEST(Svg, EveryCellSaysItsWeight) {
  const std::string svg = to_svg({words()});
  EXPECT_EQ(count(svg, "<title>"), 12u);
  EXPECT_NE(svg.find("<title>été ← summer&#39;s  0.830</title>"), std::string::npos);
  EXPECT_NE(svg.find("<title>&lt;/s&gt; ← &lt;&amp;&gt;&quot;  NaN</title>"), std::string::npos);
}

TEST(Svg, LongLabelsAreTurned) {
  EXPECT_EQ(count(to_svg({words()}), "rotate(-90)"), 4u);
  EXPECT_EQ(count(to_svg({Heatmap{"", {"1"}, {"a", "b"}, {1, 0}}}), "rotate(-90)"), 0u);
}

// A sign that fits its column stands upright, whatever the others are.
TEST(Svg, ALabelOfOneSignStandsUpright) {
  const std::string svg = to_svg({Heatmap{"", {"1"}, {"a", "</s>"}, {1, 0}}});
  EXPECT_EQ(count(svg, "rotate(-90)"), 1u);
  EXPECT_EQ(count(svg, "class=\"mid\""), 1u);
}

// What is read and what is written, where a map says it; nothing else moves out of the picture for
// it.
TEST(Svg, AxesAreNamed) {
  Heatmap map{"t", {"1"}, {"a", "b"}, {1, 0}};
  const Drawing plain = drawing_of(sheet_of(std::vector<Picture>{map}), Target::svg);
  EXPECT_EQ(plain.svg.find("→"), std::string::npos);
  map.axes = {"written & so on", "read"};
  const Drawing named = drawing_of(sheet_of(std::vector<Picture>{map}), Target::svg);
  EXPECT_EQ(malformed(named.svg), "");
  EXPECT_EQ(count(named.svg, ">read →<"), 1u);
  EXPECT_EQ(count(named.svg, "rotate(-90)\">← written &amp; so on<"), 1u);
  EXPECT_GT(named.height, plain.height + 100) << "a long name beside one row is not cut";
  map.axes.rows = std::string(100000, 'x');
  EXPECT_LT(drawing_of(sheet_of(std::vector<Picture>{map}), Target::svg).height, 500);
  const std::string page = to_html({.title = "t", .sections = {{"s", {Pictures{{map}}}}}});
  EXPECT_EQ(count(page, ">read →<"), 1u);
}

// A colour for each head, which is its own whatever others are drawn; what cannot be seen is left
// out.
TEST(Svg, HeadsAreLinesInTheirColours) {
  const Lines all{
      "layer 1", {"le", "chat"}, {"the", "cat"}, {1, 2}, {1, 0, 0.002f, 0.75f, 0, 0.5f, 0, NAN}};
  const std::string svg = to_svg({all});
  EXPECT_EQ(malformed(svg), "");
  EXPECT_EQ(count(svg, "<path d=\"M"), 3u);
  EXPECT_EQ(count(svg, "stroke-opacity=\"0.750\""), 1u);
  const std::string second = to_svg({Lines{"layer 1", {"le"}, {"the"}, {2}, {1}}});
  const size_t at = svg.rfind("stroke=\"#");
  EXPECT_NE(second.find(svg.substr(at, 16)), std::string::npos) << svg.substr(at, 16);
  EXPECT_EQ(count(svg, svg.substr(at, 16)), 1u);
  EXPECT_NE(test::error_of([] {
              Picture(Lines{"", {"a"}, {"b"}, {0}, {1}});
            }).find("from 1"),
            std::string::npos);
}

TEST(Svg, LoadsNothing) {
  const std::string svg = to_svg({words()});
  EXPECT_EQ(count(svg, "http"), 1u);  // the namespace
  EXPECT_EQ(count(svg, "url("), 0u);
}

TEST(Svg, HasNoCharacterThatXmlForbids) {
  const std::string svg = to_svg({Heatmap{"a\x01\x1b", {"\x02"}, {"\xff"}, {1}}});
  EXPECT_EQ(malformed(svg), "");
  EXPECT_EQ(svg.find_first_of("\x01\x02\x1b\xff"), std::string::npos);
}

TEST(Svg, EmptyMapsAreDrawn) {
  EXPECT_EQ(malformed(to_svg({Heatmap{}})), "");
  EXPECT_EQ(malformed(to_svg({Heatmap{"t", {"a"}, {}, {}}})), "");
}

TEST(Svg, CellsOfLikeWeightAreOnePath) {
  Heatmap map{"", {"1", "2", "3"}, {"a", "b"}, {1, 0, 0, 1, 0.5f, NAN}};
  const std::string svg = to_svg({map});
  EXPECT_EQ(count(svg, "<path class=\"k31\" fill=\"#082863\" d=\"M0 0h23v23h-23zM24 24h23"), 1u);
  EXPECT_EQ(count(svg, "<path class=\"k0\" fill=\"#fafbfd\" d=\"M24 0h23v23h-23zM0 24h23"), 1u);
  EXPECT_EQ(count(svg, "<path class=\"unknown\" fill=\"#bebebe\" d=\"M24 48h23"), 1u);
  EXPECT_EQ(count(svg, "<path class=\"k"), 3u);
}

// Blue below 0, orange above, and nothing in the middle; the largest size gets the full colour.
TEST(Svg, SignedWeightsHaveTwoColours) {
  Heatmap map{"", {"1"}, {"a", "b", "c"}, {-4, 0, 2}, Scale::around_zero};
  EXPECT_EQ(full_weight(map), 4.0);
  const std::string svg = to_svg({map});
  EXPECT_EQ(malformed(svg), "");
  EXPECT_EQ(count(svg, "<path class=\"d0\" fill=\"#083878\" d=\"M0 0h23"), 1u);
  EXPECT_EQ(count(svg, "<path class=\"d15\" fill=\"#f8f8f8\" d=\"M24 0h23"), 1u);
  EXPECT_EQ(count(svg, "<path class=\"d23\""), 1u);
  EXPECT_EQ(count(svg, "<path class=\"d"), 3u);
  EXPECT_EQ(count(svg, ">−4<"), 1u);
  EXPECT_EQ(count(svg, ">4<"), 1u);
  // Two shades as far from 0 differ in hue and are as light.
  for (const Background paper : {Background::white, Background::black}) {
    for (const int k : {1, 5, 10, 15}) {
      const Colour below = signed_shade(15 - k, paper), above = signed_shade(15 + k, paper);
      EXPECT_GT(below[2], above[2]) << k;  // blue
      EXPECT_LT(below[0], above[0]) << k;  // red
    }
  }
}

TEST(Svg, ManyMapsStandInColumns) {
  const std::vector<Picture> maps(100, words());
  const Sheet sheet = sheet_of(maps);
  EXPECT_LT(sheet.height, 16100);
  const double last = sheet.maps.back().x;
  EXPECT_GT(last, sheet.maps.front().x);
  for (size_t i = 1; i < sheet.maps.size(); ++i) {
    const Sheet::Placed &above = sheet.maps[i - 1], &map = sheet.maps[i];
    if (map.x == above.x) {
      EXPECT_GE(map.y, above.y + above.height);
    } else {
      EXPECT_GE(map.x, above.x + above.width);
      EXPECT_EQ(map.y, sheet.maps.front().y);
    }
    EXPECT_LE(map.x + map.width, sheet.width);
    EXPECT_LE(map.y + map.height, sheet.height);
  }
}

int pixels_of_colour(const image::Pixels& picture, Colour colour) {
  int n = 0;
  for (int y = 0; y < picture.height(); ++y) {
    for (int x = 0; x < picture.width(); ++x) n += picture.at(x, y) == colour;
  }
  return n;
}

TEST(Png, CellsHaveTheirColours) {
  const image::Pixels picture =
      image::pixels_of(to_png({Heatmap{"", {"r", "s"}, {"a", "b"}, {1.0f, 0.0f, NAN, 0.0f}}}));
  constexpr int kCell = 46 * 46;  // pixels, the line beside it left out
  EXPECT_GE(pixels_of_colour(picture, colour_of(1, Background::white)), kCell);
  EXPECT_GE(pixels_of_colour(picture, colour_of(0, Background::white)), 2 * kCell);
  EXPECT_GE(pixels_of_colour(picture, {0xbe, 0xbe, 0xbe}), kCell);
}

TEST(Png, IsTheSvgTwiceAsLarge) {
  const Sheet sheet = sheet_of(std::vector<Picture>{words()});
  const image::Pixels picture = image::pixels_of(to_png({words()}));
  EXPECT_EQ(picture.width(), 2 * sheet.width);
  EXPECT_EQ(picture.height(), 2 * sheet.height);
}

TEST(Png, MoreWeightIsDarker) {
  const std::vector<std::string> labels(10, "");
  Heatmap map{"", labels, labels, std::vector<float>(100, 0.0f)};
  const int none = image::pixels_of(to_png({map})).dark();
  std::fill(map.weights.begin(), map.weights.begin() + 50, 1.0f);
  EXPECT_GE(image::pixels_of(to_png({map})).dark(), none + 50 * 46 * 46);
}

TEST(Png, MapsStandBelowOneAnother) {
  const image::Pixels one = image::pixels_of(to_png({words()}));
  const image::Pixels two = image::pixels_of(to_png({words(), words()}));
  EXPECT_EQ(one.width(), two.width());
  EXPECT_GT(two.height(), one.height() * 3 / 2);
  EXPECT_GT(image::pixels_of(to_png({Heatmap{}})).height(), 0);
}

// Two hundred rows: one pixel a unit.
TEST(Png, LargePicturesAreNotDoubled) {
  Heatmap map{"", {}, {}, std::vector<float>(200 * 200, 0.5f)};
  map.rows.assign(200, "row"), map.columns.assign(200, "column");
  const Sheet sheet = sheet_of(std::vector<Picture>{map});
  const image::Pixels picture = image::pixels_of(to_png({map}));
  EXPECT_EQ(picture.width(), sheet.width);
  EXPECT_EQ(picture.height(), sheet.height);
}

TEST(Png, TooLargeIsRefusedAndSaysWhatToDo) {
  const File png("png");
  const auto refused = [&](const std::vector<Picture>& maps) {
    return test::error_of([&] { write(png.path(), maps); });
  };
  const std::string many = refused(std::vector<Picture>(5000, words()));
  EXPECT_NE(many.find("5000 maps would be a picture of"), std::string::npos) << many;
  EXPECT_NE(many.find("write .svg or .json instead, or fewer"), std::string::npos) << many;
  Heatmap tall{"", std::vector<std::string>(2000, "r"), {"c"}, std::vector<float>(2000)};
  EXPECT_NE(refused({tall}).find("32767 on a side"), std::string::npos);
  EXPECT_FALSE(fs::exists(png.path()));
}

// Whether any font has this character, by fontconfig's own tool.
bool has_font(const std::string& hex_code) {
  const std::string command = "fc-list :charset=" + hex_code + " 2>/dev/null";
  const std::unique_ptr<FILE, int (*)(FILE*)> list(popen(command.c_str(), "r"), pclose);
  return list && std::fgetc(list.get()) != EOF;
}

// Letters stand left of the cells, and within the picture.
TEST(Png, LabelsOfEveryScriptAreInk) {
  struct Script {
    const char *name, *label, *code;
  };
  for (const Script& script : {Script{"Latin", "été", "e9"},
                               {"Arabic", "مرحبا!", "0645"},
                               {"Chinese", "图书馆", "56fe"},
                               {"Hindi", "नमस्ते", "0928"},
                               {"Tamil", "தமிழ்மொழி", "0ba4"},
                               {"emoji", "😀", "1f600"},
                               {"joined emoji", "👩‍👩‍👧", "1f469"},
                               {"flag", "🇩🇪", "1f1e9"}}) {
    const std::vector<Picture> maps = {Heatmap{"", {without_pictures(script.label)}, {"x"}, {0}}};
    const Sheet sheet = sheet_of(maps);
    const auto cells = static_cast<int>(2 * (sheet.maps[0].x + sheet.maps[0].grid.left));
    const image::Pixels picture = image::pixels_of(to_png(maps));
    EXPECT_EQ(picture.dark(8), 0) << script.name << " leaves the picture";
    if (!has_font(script.code)) continue;  // boxes, or nothing where no font is at all
    EXPECT_GT(picture.dark(cells - 2), 12) << script.name;
  }
}

TEST(Json, HoldsWhatCameIn) {
  const auto json = nlohmann::json::parse(to_json(words()));
  EXPECT_EQ(json["title"], "a <b> & \"c\"");
  EXPECT_EQ(json["rows"], (std::vector<std::string>{"l’", "été", "</s>"}));
  EXPECT_EQ(json["columns"][1], "summer's");
  EXPECT_EQ(json["weights"].size(), 3u);
  EXPECT_TRUE(json["weights"][2][2].is_null());
  EXPECT_EQ(to_json(Heatmap{"", {"r"}, {"a"}, {0.83f}}),
            R"({"title":"","rows":["r"],"columns":["a"],"weights":[[0.83]]})");
  EXPECT_NO_THROW(to_json(Heatmap{"\xff", {}, {}, {}}));
}

TEST(Write, GoesByTheEnding) {
  const File json("json"), svg("svg"), png("png");
  write(json.path(), {words()});
  EXPECT_EQ(json.read(), to_json(words()) + "\n");
  write(json.path(), {words(), words()});
  EXPECT_EQ(json.read(), "[" + to_json(words()) + "," + to_json(words()) + "]\n");
  write(svg.path(), {words()});
  EXPECT_EQ(svg.read(), to_svg({words()}));
  write(svg.path(), {words(), words()});
  EXPECT_EQ(malformed(svg.read()), "");
  EXPECT_EQ(count(svg.read(), "<title>"), 24u);
  write(png.path(), {words()});
  EXPECT_EQ(png.read().substr(1, 3), "PNG");
  EXPECT_EQ(png.read(), to_png({words()}));
}

TEST(Write, ANameSaysItsFormat) {
  EXPECT_EQ(picture_format("a/map.json"), PictureFormat::json);
  EXPECT_EQ(picture_format("map.csv"), PictureFormat::csv);
  EXPECT_EQ(picture_format("map.svg"), PictureFormat::svg);
  EXPECT_EQ(picture_format("m.txt.png"), PictureFormat::png);
  for (const char* name : {"map.txt", "map", "png", ".png", "map.PNG", ""}) {
    EXPECT_THROW(picture_format(name), Error) << name;
  }
}

TEST(Write, RefusesWhatItCannot) {
  EXPECT_THROW(write("map.gif", {words()}), Error);
  EXPECT_THROW(write("map", {words()}), Error);
  const File png("png");
  EXPECT_THROW(write(png.path(), std::vector<Picture>{}), Error);
  EXPECT_THROW(write(png.path(), {Heatmap{"", {"a"}, {"b"}, {}}}), Error);
  EXPECT_FALSE(fs::exists(png.path()));
}

}  // namespace
}  // namespace fovea::report
