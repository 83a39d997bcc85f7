#include "image/class_folders.h"

#include <gtest/gtest.h>

#include "errors.h"
#include "image/image_file.h"
#include "io/files.h"

namespace fovea::image {
namespace {

using test::error_of;
using test::Folder;
using test::has;
using test::write_bytes;

std::string png_of(float value) { return to_png({4, 6, 1, std::vector<float>(24, value)}); }

TEST(ClassFolders, ReadsAFolderForEachClassInOrder) {
  const Folder folder;
  std::filesystem::create_directories(folder / "dogs/more");
  std::filesystem::create_directories(folder / "cats");
  std::filesystem::create_directories(folder / "empty");
  write_bytes(folder / "dogs/b.png", png_of(0.2f));
  write_bytes(folder / "dogs/more/a.PNG", png_of(0.4f));
  write_bytes(folder / "cats/c.png", png_of(0.6f));
  write_bytes(folder / "cats/notes.txt", "no image");
  write_bytes(folder / "readme.md", "no image either");
  std::vector<std::string> warnings;
  const LabelledImages all =
      read_class_folders(folder / "", {.height = 8, .width = 8, .channels = 3},
                         [&](const std::string& line) { warnings.push_back(line); });
  EXPECT_EQ(all.classes, (std::vector<std::string>{"cats", "dogs"}));
  ASSERT_EQ(all.images.size(), 3u);
  EXPECT_EQ(all.images[0].label, 0);
  EXPECT_EQ(all.images[1].label, 1);
  EXPECT_TRUE(all.images[1].name.ends_with("dogs/b.png"));
  for (const LabelledImage& x : all.images) {
    EXPECT_EQ(x.image.pixels.size(), 8u * 8 * 3);
  }
  EXPECT_NEAR(all.images[0].image.pixels[0], 0.6f, 0.01f);
  EXPECT_TRUE(warnings.empty());
  EXPECT_EQ(count_images(folder / ""), 3);
}

TEST(ClassFolders, ABrokenImageIsNamedSkippedAndCounted) {
  const Folder folder;
  std::filesystem::create_directories(folder / "a");
  std::filesystem::create_directories(folder / "b");
  write_bytes(folder / "a/good.png", png_of(0.2f));
  write_bytes(folder / "a/cut.png", png_of(0.2f).substr(0, 40));
  write_bytes(folder / "b/text.jpg", "no image");
  write_bytes(folder / "b/good.png", png_of(0.2f));
  std::vector<std::string> warnings;
  const LabelledImages all = read_class_folders(
      folder / "", {}, [&](const std::string& line) { warnings.push_back(line); });
  EXPECT_EQ(all.images.size(), 2u);
  ASSERT_EQ(warnings.size(), 3u);
  EXPECT_TRUE(has(warnings[0], "cut.png"));
  EXPECT_TRUE(has(warnings[1], "text.jpg: it is neither PNG nor JPEG"));
  EXPECT_EQ(warnings[2], "2 of 4 images were left out");
}

TEST(ClassFolders, NothingToReadIsAnError) {
  const Folder folder;
  EXPECT_TRUE(has(error_of([&] { read_class_folders(folder / "none", {}); }), "is not a folder"));
  EXPECT_TRUE(has(error_of([&] { read_class_folders(folder / "", {}); }), "one for each class"));
  std::filesystem::create_directories(folder / "a");
  write_bytes(folder / "a/x.png", "broken");
  write_bytes(folder / "a/y.png", "broken");
  EXPECT_TRUE(
      has(error_of([&] { read_class_folders(folder / "", {}); }), "none of the 2 images of"));
}

}  // namespace
}  // namespace fovea::image
