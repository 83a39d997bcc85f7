#include "image/csv.h"

#include <gtest/gtest.h>

#include "errors.h"

namespace fovea::image {
namespace {

using test::error_of;
using test::has;

LabelledImages parse(std::string_view text) {
  return parse_csv(text::Lines::of_memory("csv", "some", text));
}

TEST(ImageCsv, PixelsThenClassOrAsNamed) {
  const LabelledImages last = parse("0,8,16,4,2\n1,1,1,1,0\n");
  ASSERT_EQ(last.images.size(), 2u);
  EXPECT_EQ(last.classes.size(), 3u);
  EXPECT_EQ(last.images[0].label, 2);
  EXPECT_EQ(last.images[0].image.pixels, (std::vector<float>{0, 0.5, 1, 0.25}));
  const LabelledImages named = parse("label,a,b,c,d\r\n1, 255,0,51,0\r\n");
  EXPECT_EQ(named.images[0].label, 1);
  EXPECT_FLOAT_EQ(named.images[0].image.pixels[2], 0.2f);
  EXPECT_EQ(parse("0.5,1\n").images[0].image.pixels[0], 0.5f);
}

TEST(ImageCsv, SaysWhichLineIsWrong) {
  const auto error = [](const char* text) { return error_of([&] { parse(text); }); };
  EXPECT_TRUE(has(error(""), "no images"));
  EXPECT_TRUE(has(error("1,2,3\n"), "some:1: 3 values"));
  EXPECT_TRUE(has(error("1,1\n1,1,1\n"), "some:2: 3 values"));
  EXPECT_TRUE(has(error("1,1\nx,1\n"), "some:2: value 1 is 'x'"));
  EXPECT_TRUE(has(error("256,1\n"), "from 0 to 255"));
  EXPECT_TRUE(has(error("nan,1\n"), "value 1"));
  EXPECT_TRUE(has(error("1,1.5\n"), "a class"));
  EXPECT_TRUE(has(error("1,-1\n"), "a class"));
}

}  // namespace
}  // namespace fovea::image
