#include "image/class_folders.h"

#include <gtest/gtest.h>

#include "core/interrupt.h"
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

// What ends the work is no broken image.
TEST(ClassFolders, AreNotReadInPartWhenWorkIsGivenUp) {
  struct GivenUp {};
  const Folder folder;
  for (const char* name : {"a", "b", "c"}) {
    std::filesystem::create_directories(folder / name);
    write_bytes(folder / name / "1.png", png_of(0.2f));
  }
  int asked = 0;
  const Interruptible scope([&] {
    if (++asked > 1) throw GivenUp();
  });
  EXPECT_THROW(read_class_folders(folder / "", {.height = 8, .width = 8, .channels = 3}), GivenUp);
}

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
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0], "1 folder is without PNG or JPEG files and left out: empty");
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

// What is wrong in many places takes a few lines.
TEST(ClassFolders, EmptyFoldersBrokenClassesAndLinksAreSaidAndCounted) {
  const Folder folder;
  for (const char* name : {"a", "b", "bad", "e1", "e2", "e3", "e4", ".hidden"}) {
    std::filesystem::create_directories(folder / name);
  }
  write_bytes(folder / "a/good.png", png_of(0.2f));
  write_bytes(folder / "b/good.png", png_of(0.2f));
  std::filesystem::create_symlink("nowhere.png", folder / "b/link.png");
  std::filesystem::create_symlink("loop.png", folder / "b/loop.png");
  std::filesystem::create_symlink("nowhere", folder / "gone");
  for (int i = 0; i < 500; ++i) {
    write_bytes(folder / ("bad/" + std::to_string(i) + ".png"), "broken");
  }
  std::vector<std::string> warnings;
  const LabelledImages all = read_class_folders(folder / "", {}, keep_in(warnings));
  EXPECT_EQ(all.classes, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(all.images.size(), 2u);
  ASSERT_EQ(warnings.size(), 6u);
  EXPECT_TRUE(has(warnings[0], "b/link.png: is a link to nothing"));
  EXPECT_EQ(warnings[0].find('['), std::string::npos);  // the call is nobody's business
  EXPECT_EQ(warnings[3], "502 of 504 images were left out; the first 3 of them are named above");
  EXPECT_EQ(warnings[4],
            "5 folders are without PNG or JPEG files and left out: e1, e2, e3 and 2 more");
  EXPECT_EQ(warnings[5], "1 folder is of images none of which can be read and left out: bad");
}

TEST(ClassFolders, NothingToReadIsAnError) {
  const Folder folder;
  EXPECT_TRUE(has(error_of([&] { read_class_folders(folder / "none", {}); }), "none is not there"));
  EXPECT_TRUE(has(error_of([&] { read_class_folders(folder / "", {}); }), "one for each class"));
  std::filesystem::create_directories(folder / "a");
  write_bytes(folder / "a/x.png", "broken");
  write_bytes(folder / "a/y.png", "broken");
  EXPECT_TRUE(
      has(error_of([&] { read_class_folders(folder / "", {}); }), "none of the 2 images of"));
}

}  // namespace
}  // namespace fovea::image
