#include "image/svg.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "errors.h"
#include "image/pixels.h"

namespace fovea::image {
namespace {

using Rgb = std::array<uint8_t, 3>;

std::string svg(int width, int height, const std::string& inside) {
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + std::to_string(width) +
         "\" height=\"" + std::to_string(height) + "\">" + inside + "</svg>";
}

const std::string kSquare =
    svg(20, 10, R"(<path fill="#08285f" d="M2 3h4v4h-4z"/><text x="8" y="9">Où ?</text>)");

TEST(Svg, BecomesPixels) {
  const Pixels one = pixels_of(to_png({kSquare, 20, 10, 1}));
  EXPECT_EQ(one.width(), 20);
  EXPECT_EQ(one.height(), 10);
  EXPECT_EQ(one.at(2, 3), (Rgb{0x08, 0x28, 0x5f}));
  EXPECT_EQ(one.at(5, 6), (Rgb{0x08, 0x28, 0x5f}));
  EXPECT_EQ(one.at(1, 3), (Rgb{255, 255, 255}));
  EXPECT_EQ(one.at(2, 7), (Rgb{255, 255, 255}));
}

TEST(Svg, IsScaled) {
  const Pixels two = pixels_of(to_png({kSquare, 20, 10, 2}));
  EXPECT_EQ(two.width(), 40);
  EXPECT_EQ(two.height(), 20);
  EXPECT_EQ(two.at(4, 6), (Rgb{0x08, 0x28, 0x5f}));
  EXPECT_EQ(two.at(11, 13), (Rgb{0x08, 0x28, 0x5f}));
  EXPECT_EQ(two.at(3, 6), (Rgb{255, 255, 255}));
}

TEST(Svg, LettersAreInk) {
  const std::string word = R"(<text x="5" y="20" font-size="16">Où ?</text>)";
  EXPECT_GT(pixels_of(to_png({svg(60, 30, word), 60, 30, 1})).dark(), 20);
  EXPECT_EQ(pixels_of(to_png({svg(60, 30, ""), 60, 30, 1})).dark(), 0);
}

TEST(Svg, TheSameDrawingIsTheSameFileInEveryThread) {
  const std::string expected = to_png({kSquare, 20, 10, 2});
  std::vector<std::string> found(4);
  std::vector<std::thread> threads;
  for (std::string& png : found) {
    threads.emplace_back([&png] {
      for (int i = 0; i < 10; ++i) png = to_png({kSquare, 20, 10, 2});
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& png : found) EXPECT_EQ(png, expected);
}

TEST(Svg, RefusesWhatIsNoDrawing) {
  EXPECT_THROW(to_png({"", 10, 10, 1}), Error);
  EXPECT_THROW(to_png({"<svg", 10, 10, 1}), Error);
  EXPECT_THROW(to_png({kSquare, 0, 10, 1}), Error);
  EXPECT_THROW(to_png({kSquare, 10, 10, 0}), Error);
}

TEST(Svg, RefusesWhatIsTooLarge) {
  EXPECT_TRUE(fits({"", 32767, 100, 1}));
  EXPECT_FALSE(fits({"", 32768, 1, 1}));
  EXPECT_FALSE(fits({"", 1, 16384, 2}));
  EXPECT_TRUE(fits({"", 8192, 8192, 1}));
  EXPECT_FALSE(fits({"", 8193, 8192, 1}));
  EXPECT_THROW(to_png({kSquare, 1e9, 1e9, 1}), Error);
}

}  // namespace
}  // namespace fovea::image
