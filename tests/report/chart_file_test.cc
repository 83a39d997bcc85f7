#include <gtest/gtest.h>

#include <cmath>

#include "errors.h"
#include "image/pixels.h"
#include "io/files.h"
#include "report/files.h"
#include "report/malformed.h"
#include "report/report.h"

namespace fovea::report {
namespace {

const std::string kNastyLabel = "<b>&\"'\x01";

std::vector<Chart> charts() {
  return {{kNastyLabel,
           kNastyLabel,
           {{kNastyLabel, {{0, 1}, {1, NAN}, {2, 3}}}, {"two", {{0, 2}}}},
           false},
          {"x", "y", {{"log", {{0, 1}, {1, 1e-7}, {2, 0}}}}, true},
          {"x", "empty", {}, false}};
}

TEST(ChartFile, IsWellFormed) {
  const std::string svg = to_svg(charts());
  EXPECT_EQ(malformed(svg), "");
  EXPECT_EQ(malformed(to_svg(std::vector<Chart>{})), "");
  EXPECT_EQ(count(svg, "<b>"), 0u);
  EXPECT_EQ(svg.find('\x01'), std::string::npos);
  EXPECT_EQ(count(svg, "<circle"), 5u);  // what is no number, or 0 on a log axis, has no place
  EXPECT_EQ(count(svg, "http"), 1u);     // the namespace
  EXPECT_NE(svg.find("nothing to draw"), std::string::npos);
}

// A page's curves and a file's have the same colours, on light and dark.
TEST(ChartFile, HasThePagesColours) {
  const std::string page(files::page_css), chart(files::chart_css);
  for (int i = 0; i < 8; ++i) {
    const std::string name = "--s" + std::to_string(i) + ":#";
    size_t at = 0, in_chart = 0;
    for (int scheme = 0; scheme < 2; ++scheme) {
      at = page.find(name, at) + name.size();
      const std::string rule = ".s" + std::to_string(i) + "{color:#" + page.substr(at, 6) + "}";
      in_chart = chart.find(rule, in_chart);
      EXPECT_NE(in_chart, std::string::npos) << rule;
    }
  }
}

TEST(ChartFile, IsDrawnAsPixels) {
  const std::vector<Chart> one = {{"x", "y", {{"a", {{0, 0}, {1, 1}}}}, false}};
  const image::Pixels pixels = image::pixels_of(to_png(one));
  EXPECT_EQ(pixels.width(), 2 * (816 + 32));
  int blue = 0;  // the curve and its key: #0b6bb0
  for (int y = 0; y < pixels.height(); ++y) {
    for (int x = 0; x < pixels.width(); ++x) {
      blue += pixels.at(x, y) == std::array<uint8_t, 3>{0x0b, 0x6b, 0xb0};
    }
  }
  EXPECT_GT(blue, 1000);
}

TEST(ChartFile, EndsInWhatItIs) {
  const test::Folder folder;
  write(folder / "a.svg", charts());
  write(folder / "a.png", charts());
  EXPECT_EQ(test::read_bytes(folder / "a.svg"), to_svg(charts()));
  EXPECT_TRUE(test::read_bytes(folder / "a.png").starts_with("\x89PNG"));
  EXPECT_TRUE(test::has(test::error_of([&] { write(folder / "a.json", charts()); }), ".svg"));
  EXPECT_TRUE(test::has(test::error_of([&] { write(folder / "a.gif", charts()); }), ".svg"));
  EXPECT_EQ(folder.files(), 2);
}

}  // namespace
}  // namespace fovea::report
