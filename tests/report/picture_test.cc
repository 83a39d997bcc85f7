#include "report/picture.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "fovea/error.h"
#include "report/heatmap.h"
#include "report/markup.h"

namespace fovea::report {
namespace {

namespace fs = std::filesystem;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

Heatmap words() {
  return {"a <b> & \"c\"",
          {"l’", "été", "</s>"},
          {"the", "summer's", "<&>\"", "end"},
          {1, 0, 0, 0, 0, 0.83f, 0.17f, 0, 0.25f, 0.25f, kNaN, 0.25f}};
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
double lightness(image::Colour c) { return 0.299 * c[0] + 0.587 * c[1] + 0.114 * c[2]; }

TEST(Colour, MoreWeightIsDarkerOnWhiteAndLighterOnBlack) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_GT(lightness(colour_of(i / 100.0, Paper::white)),
              lightness(colour_of((i + 1) / 100.0, Paper::white)));
    EXPECT_LT(lightness(colour_of(i / 100.0, Paper::black)),
              lightness(colour_of((i + 1) / 100.0, Paper::black)));
  }
  EXPECT_EQ(colour_of(-1, Paper::white), colour_of(0, Paper::white));
  EXPECT_EQ(colour_of(7, Paper::white), colour_of(1, Paper::white));
}

TEST(Heatmap, FullColourIsOneOrTheLargest) {
  EXPECT_EQ(full_weight({"", {"r"}, {"a"}, {0.6f}}), 1.0);
  EXPECT_FLOAT_EQ(static_cast<float>(full_weight({"", {"r"}, {"a"}, {0.2f}})), 0.2f);
  EXPECT_EQ(full_weight({"", {"r"}, {"a"}, {3.0f}}), 3.0);
  EXPECT_EQ(full_weight({"", {"r"}, {"a", "b"}, {kNaN, 0.0f}}), 1.0);
  EXPECT_EQ(full_weight({}), 1.0);
}

TEST(Svg, IsWellFormedAndEscaped) {
  const std::string svg = to_svg(words());
  EXPECT_EQ(malformed(svg), "");
  EXPECT_NE(svg.find("a &lt;b&gt; &amp; &quot;c&quot;"), std::string::npos);
  EXPECT_NE(svg.find("&lt;/s&gt;"), std::string::npos);
}

TEST(Svg, EveryCellSaysItsWeight) {
  const std::string svg = to_svg(words());
  EXPECT_EQ(count(svg, "<title>"), 12u);
  EXPECT_NE(svg.find("<title>été ← summer&#39;s  0.830</title>"), std::string::npos);
  EXPECT_NE(svg.find("<title>&lt;/s&gt; ← &lt;&amp;&gt;&quot;  NaN</title>"), std::string::npos);
}

TEST(Svg, LongLabelsAreTurned) {
  EXPECT_EQ(count(to_svg(words()), "rotate(-90)"), 4u);
  EXPECT_EQ(count(to_svg({"", {"1"}, {"a", "b"}, {1, 0}}), "rotate(-90)"), 0u);
}

TEST(Svg, LoadsNothing) {
  const std::string svg = to_svg(words());
  EXPECT_EQ(count(svg, "http"), 1u);  // the namespace
  EXPECT_EQ(count(svg, "url("), 0u);
}

TEST(Svg, HasNoCharacterThatXmlForbids) {
  const std::string svg = to_svg({"a\x01\x1b", {"\x02"}, {"\xff"}, {1}});
  EXPECT_EQ(malformed(svg), "");
  EXPECT_EQ(svg.find_first_of("\x01\x02\x1b\xff"), std::string::npos);
}

TEST(Svg, EmptyMapsAreDrawn) {
  EXPECT_EQ(malformed(to_svg(Heatmap{})), "");
  EXPECT_EQ(malformed(to_svg({"t", {"a"}, {}, {}})), "");
}

TEST(Png, CellsHaveTheirColours) {
  const image::Image picture = draw({{"", {"r"}, {"a", "b"}, {1.0f, 0.0f}}});
  const auto pixels_of = [&](image::Colour colour) {
    int n = 0;
    for (size_t i = 0; i < picture.rgb.size(); i += 3) {
      n += std::equal(colour.begin(), colour.end(), picture.rgb.begin() + static_cast<long>(i));
    }
    return n;
  };
  EXPECT_GE(pixels_of(colour_of(1, Paper::white)), 27 * 27);
  EXPECT_GE(pixels_of(colour_of(0, Paper::white)), 27 * 27);
}

TEST(Png, MapsStandBelowOneAnother) {
  const image::Image one = draw({words()}), two = draw({words(), words()});
  EXPECT_EQ(one.width, two.width);
  EXPECT_GT(two.height, one.height * 3 / 2);
  EXPECT_GT(draw({Heatmap{}}).height, 0);
}

TEST(Json, HoldsWhatCameIn) {
  const auto json = nlohmann::json::parse(to_json(words()));
  EXPECT_EQ(json["title"], "a <b> & \"c\"");
  EXPECT_EQ(json["rows"], (std::vector<std::string>{"l’", "été", "</s>"}));
  EXPECT_EQ(json["columns"][1], "summer's");
  EXPECT_EQ(json["weights"].size(), 3u);
  EXPECT_TRUE(json["weights"][2][2].is_null());
  EXPECT_EQ(to_json({"", {"r"}, {"a"}, {0.83f}}),
            R"({"title":"","rows":["r"],"columns":["a"],"weights":[[0.83]]})");
  EXPECT_NO_THROW(to_json({"\xff", {}, {}, {}}));
}

TEST(Write, GoesByTheEnding) {
  const File json("json"), svg("svg"), png("png");
  write(json.path(), {words()});
  EXPECT_EQ(json.read(), to_json(words()) + "\n");
  write(json.path(), {words(), words()});
  EXPECT_EQ(json.read(), "[" + to_json(words()) + "," + to_json(words()) + "]\n");
  write(svg.path(), {words()});
  EXPECT_EQ(svg.read(), to_svg(words()));
  write(svg.path(), {words(), words()});
  EXPECT_EQ(malformed(svg.read()), "");
  EXPECT_EQ(count(svg.read(), "<title>"), 24u);
  write(png.path(), {words()});
  EXPECT_EQ(png.read().substr(1, 3), "PNG");
}

TEST(Write, RefusesWhatItCannot) {
  EXPECT_THROW(write("map.gif", {words()}), Error);
  EXPECT_THROW(write("map", {words()}), Error);
  const File png("png");
  EXPECT_THROW(write(png.path(), {}), Error);
  EXPECT_THROW(write(png.path(), {Heatmap{"", {"a"}, {"b"}, {}}}), Error);
  EXPECT_FALSE(fs::exists(png.path()));
}

}  // namespace
}  // namespace fovea::report
