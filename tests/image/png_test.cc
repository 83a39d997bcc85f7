#include <gtest/gtest.h>
#include <png.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "fovea/error.h"
#include "image/image.h"

namespace fovea::image {
namespace {

Image decode(const std::vector<uint8_t>& bytes) {
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  EXPECT_NE(png_image_begin_read_from_memory(&header, bytes.data(), bytes.size()), 0);
  header.format = PNG_FORMAT_RGB;
  Image picture = blank(static_cast<int>(header.width), static_cast<int>(header.height));
  EXPECT_NE(png_image_finish_read(&header, nullptr, picture.rgb.data(), 0, nullptr), 0);
  return picture;
}

Image speckled(int width, int height) {
  Image picture = blank(width, height);
  for (size_t i = 0; i < picture.rgb.size(); ++i) {
    picture.rgb[i] = static_cast<uint8_t>(i * 2654435761u >> 13);
  }
  return picture;
}

TEST(Png, DecodesToTheSamePixels) {
  for (const auto& [width, height] : {std::pair{1, 1}, {7, 3}, {3, 200}, {129, 65}}) {
    const Image picture = speckled(width, height);
    const Image back = decode(encode_png(picture));
    EXPECT_EQ(back.width, width);
    EXPECT_EQ(back.height, height);
    EXPECT_EQ(back.rgb, picture.rgb);
  }
}

TEST(Png, AFileHoldsWhatWasEncoded) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) /
                                     ("fovea_png_test_" + std::to_string(::getpid()) + ".png");
  const Image picture = speckled(20, 10);
  write_png(path, picture);
  std::ifstream file(path, std::ios::binary);
  const std::vector<uint8_t> bytes((std::istreambuf_iterator<char>(file)), {});
  std::filesystem::remove(path);
  EXPECT_EQ(bytes, encode_png(picture));
}

TEST(Png, RefusesWhatIsNoPicture) {
  EXPECT_THROW(encode_png({}), Error);
  EXPECT_THROW(encode_png({2, 2, std::vector<uint8_t>(11)}), Error);
  EXPECT_THROW(encode_png({-2, -2, std::vector<uint8_t>(12)}), Error);
  EXPECT_THROW(write_png("/nowhere/at/all.png", speckled(2, 2)), Error);
}

TEST(Image, FillStaysInside) {
  Image picture = blank(3, 2);
  fill(picture, -5, -5, 6, 6, {1, 2, 3});  // the top left pixel
  fill(picture, 2, 0, 2, 1, {7, 8, 9});    // the top right one, not the next row's first
  fill(picture, 2, 1, 100, 100, {4, 5, 6});
  EXPECT_EQ(picture.rgb, (std::vector<uint8_t>{1, 2, 3, 255, 255, 255, 7, 8, 9,  //
                                               255, 255, 255, 255, 255, 255, 4, 5, 6}));
}

}  // namespace
}  // namespace fovea::image
