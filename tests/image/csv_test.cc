#include "image/csv.h"

#include <gtest/gtest.h>

#include "errors.h"

namespace fovea::image {
namespace {

using test::error_of;
using test::has;

CsvImages parsed_csv(std::string_view text, const std::string& class_column = {}) {
  return parse_csv(text::LineReader::of_memory("csv", "some", text), class_column);
}
std::vector<int64_t> labels_in(std::string_view text, const std::string& class_column = {}) {
  std::vector<int64_t> labels;
  for (const LabelledImage& one : parsed_csv(text, class_column).images)
    labels.push_back(one.label);
  return labels;
}
using Labels = std::vector<int64_t>;

TEST(ImageCsv, PixelsAndAClass) {
  const CsvImages last = parsed_csv("0,8,16,4,2\n1,1,1,1,0\n", "last");
  ASSERT_EQ(last.images.size(), 2u);
  EXPECT_EQ(last.classes.size(), 3u);
  EXPECT_EQ(last.images[0].label, 2);
  EXPECT_EQ(last.images[0].image.pixels, (std::vector<float>{0, 0.5, 1, 0.25}));
  const CsvImages named = parsed_csv("label,a,b,c,d\r\n1, 255,0,51,0\r\n");
  EXPECT_EQ(named.images[0].label, 1);
  EXPECT_FLOAT_EQ(named.images[0].image.pixels[2], 0.2f);
  EXPECT_EQ(parsed_csv("0.5,1\n", "last").images[0].image.pixels[0], 0.5f);
}

// MNIST as CSV has the class first and no names; its last pixel is black in every image.
TEST(ImageCsv, TheClassIsFoundByWhatColumnsHold) {
  const char* first = "5,0,9,0,0\n0,0,1,2,0\n4,0,0,7,0\n";
  EXPECT_EQ(labels_in(first), (Labels{5, 0, 4}));
  EXPECT_EQ(parsed_csv(first).class_column, "first");
  EXPECT_EQ(parsed_csv(first).images[0].image.pixels, (std::vector<float>{0, 9 / 16.0f, 0, 0}));
  const char* last = "0,9,0,0,5\n0,1,2,0,0\n0,0,7,0,4\n";
  EXPECT_EQ(labels_in(last), (Labels{5, 0, 4}));
  EXPECT_EQ(parsed_csv(last).class_column, "last");
  EXPECT_EQ(labels_in("1,0,0,0,.5\n0,0,0,0,.1\n"), (Labels{1, 0}));  // no class is a half
  // A margin that is not black: classes have no gaps, and come more than once.
  EXPECT_EQ(labels_in("0,0,0,0,7\n1,0,0,0,0\n1,0,0,0,9\n0,0,0,0,7\n"), (Labels{0, 1, 1, 0}));
  EXPECT_EQ(labels_in("a,b,c,d,e\n0,0,0,0,3\n0,0,0,0,4\n"), (Labels{3, 4}));
}

TEST(ImageCsv, TheClassIsAskedForWhereItCannotBeFound) {
  const char* either = "0,3,3,3,1\n1,3,3,3,0\n0,3,3,3,0\n1,3,3,3,1\n";
  EXPECT_TRUE(
      has(error_of([&] { parsed_csv(either); }), "--class-column first or --class-column last"));
  EXPECT_EQ(labels_in(either, "first"), (Labels{0, 1, 0, 1}));
  EXPECT_EQ(labels_in(either, "last"), (Labels{1, 0, 0, 1}));
  EXPECT_EQ(labels_in(either, "1"), (Labels{0, 1, 0, 1}));
  EXPECT_EQ(labels_in("a,b\n7,1\n", "b"), (Labels{1}));
  EXPECT_EQ(parsed_csv("a,b,kind,d,e\n7,1,2,0,0\n", "kind").class_column, "3");
  EXPECT_TRUE(has(error_of([] { parsed_csv("0,5,5,5,0\n0,7,7,7,0\n"); }), "two classes or more"));
  for (const char* wrong : {"0", "6", "1.5", "x", "-1"}) {
    EXPECT_TRUE(has(error_of([&] { parsed_csv(either, wrong); }), "there is no column")) << wrong;
  }
}

TEST(ImageCsv, NamesSeparatorsAndQuotes) {
  EXPECT_EQ(labels_in("pixel0;Target\n7;1\n"), (Labels{1}));
  EXPECT_EQ(labels_in("\"y\"\t\"x\"\n\"1\"\t\"7\"\n"), (Labels{1}));
}

TEST(ImageCsv, TheFirstLineNamesAsManyColumnsAsThereAre) {
  const std::string text = "a,b,c,d,e,f,g,kind\n1,2,3,4,1\n";
  for (const char* column : {"kind", "a", "last", ""}) {
    EXPECT_TRUE(has(error_of([&] { parsed_csv(text, column); }),
                    "some:2: 5 values, the first line names 8 columns"))
        << column;
  }
}

TEST(ImageCsv, SaysWhichLineIsWrong) {
  const auto error = [](const char* text) { return error_of([&] { parsed_csv(text, "last"); }); };
  EXPECT_TRUE(has(error(""), "no images"));
  EXPECT_TRUE(has(error("1,2,3\n"), "some:1: 3 values"));
  EXPECT_TRUE(has(error("1,2,3,4\n"), "some:1: 4 values, an image of 2 × 2 without its class"));
  EXPECT_TRUE(has(error("1,1\n1,1,1\n"), "some:2: 3 values"));
  EXPECT_TRUE(has(error("1,1\nx,1\n"), "some:2: value 1 is 'x'"));
  EXPECT_TRUE(
      has(error("1,1\n256,1\n"), "some:2: value 1 is 256, expected a number from 0 to 255"));
  EXPECT_TRUE(has(error("nan,1\n"), "value 1"));
  EXPECT_TRUE(has(error("1,1\n1,1.5\n"), "some:2: value 2 is 1.5, expected a class"));
  EXPECT_TRUE(has(error("1,-1\n"), "value 2 is '-1'"));
  EXPECT_TRUE(has(error("1,1000\n"), "value 2 is '1000'"));
}

}  // namespace
}  // namespace fovea::image
