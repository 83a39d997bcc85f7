#include "tasks/input.h"

#include <gtest/gtest.h>

#include "image/image_file.h"
#include "tasks/task.h"
#include "tests/errors.h"
#include "tests/io/files.h"

namespace fovea::tasks {
namespace {

using test::error_of;
using test::has;

TEST(Input, WhatIsTypedIsATextWhereTextIsRead) {
  const Input input = typed_input(task("translate"), "test:3");
  EXPECT_EQ(text_of(input), "test:3");
  EXPECT_TRUE(has(error_of([&] { own_of(input); }), "found a text"));
}

TEST(Input, OwnExamplesGoBeforeFiles) {
  const Input input = typed_input(task("caption"), "scene:17");
  EXPECT_EQ(own_of(input).set, "scene");
  EXPECT_EQ(own_of(input).number, 17);
  EXPECT_EQ(name_of(input), "scene:17");
  EXPECT_EQ(set_of(own_of(input)), std::nullopt);
  EXPECT_EQ(set_of(own_of(typed_input(task("image"), "valid:0"))), Set::valid);
  EXPECT_FALSE(own_from(task("image"), "scene:17"));
  EXPECT_FALSE(own_from(task("glimpse"), ":3"));
  EXPECT_TRUE(has(error_of([&] { text_of(input); }), "found an image"));
  for (const char* bad : {"test:", "test:-1", "test:1x", "test:99999999999999999999"}) {
    EXPECT_TRUE(has(error_of([&] { own_from(task("image"), bad); }), "expected a number")) << bad;
  }
}

TEST(Input, RowsOfDataAreTakenPixelByPixel) {
  const test::Folder folder;
  test::write_bytes(folder / "rows.csv", "1,0,0,0,1\n0,0,0,1,0\n");
  const Input row = typed_input(task("glimpse"), (folder / "rows.csv:1").string(), "last");
  EXPECT_EQ(std::get<GivenImage>(row).kind, GivenImage::Kind::row);
  EXPECT_EQ(std::get<GivenImage>(row).image.pixels.back(), 1.0f);
  test::write_bytes(folder / "digits.TES", "1,0,0,0,1\n0,0,0,1,0\n");
  const Input other = typed_input(task("glimpse"), (folder / "digits.TES:1").string(), "last");
  EXPECT_EQ(std::get<GivenImage>(other).kind, GivenImage::Kind::row);
  test::write_bytes(folder / "a.png", image::to_png({1, 1, 1, {1.0f}}));
  test::write_bytes(folder / "unnamed", image::to_png({1, 1, 1, {1.0f}}));
  const Input unnamed = typed_input(task("glimpse"), (folder / "unnamed").string());
  EXPECT_EQ(std::get<GivenImage>(unnamed).kind, GivenImage::Kind::photo);
  const Input photo = typed_input(task("glimpse"), (folder / "a.png").string());
  EXPECT_EQ(std::get<GivenImage>(photo).kind, GivenImage::Kind::photo);
}

TEST(Input, SomeAreSpreadOverAll) {
  EXPECT_EQ(spread(10, 2), (std::vector<size_t>{2, 7}));
  EXPECT_EQ(spread(2, 10), (std::vector<size_t>{0, 1}));
  EXPECT_TRUE(spread(0, 5).empty());
}

}  // namespace
}  // namespace fovea::tasks
