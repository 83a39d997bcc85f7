#include "image/exif.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <string>

#include "image/image_file.h"
#include "io/files.h"
#include "tests/where.h"

namespace fovea::image {
namespace {

// An image of six parts, 0 1 2 above 3 4 5, and what is seen of it where its first row and column
// belong to the sides that EXIF 2.32 names (4.6.4, tag 0x0112).
struct Held {
  int number;
  int64_t height, width;
  std::vector<int> seen;
};
const std::vector<Held> kHeld = {
    {1, 2, 3, {0, 1, 2, 3, 4, 5}},  // row 0 is the top, column 0 the left
    {2, 2, 3, {2, 1, 0, 5, 4, 3}},  // the top, the right
    {3, 2, 3, {5, 4, 3, 2, 1, 0}},  // the bottom, the right
    {4, 2, 3, {3, 4, 5, 0, 1, 2}},  // the bottom, the left
    {5, 3, 2, {0, 3, 1, 4, 2, 5}},  // the left, the top
    {6, 3, 2, {3, 0, 4, 1, 5, 2}},  // the right, the top
    {7, 3, 2, {5, 2, 4, 1, 3, 0}},  // the right, the bottom
    {8, 3, 2, {2, 5, 1, 4, 0, 3}},  // the left, the bottom
};

enum class Order { little, big };

std::string number(uint32_t value, int size, Order order) {
  std::string bytes;
  for (int i = 0; i < size; ++i) {
    bytes += static_cast<char>(value >> 8 * (order == Order::big ? size - 1 - i : i));
  }
  return bytes;
}

// A directory with the model before the orientation, as cameras write it.
std::string tiff(int orientation, Order order) {
  const auto n = [&](uint32_t value, int size) { return number(value, size, order); };
  return (order == Order::big ? "MM" : "II") + n(42, 2) + n(8, 4) + n(2, 2) +
         (n(0x0110, 2) + n(2, 2) + n(4, 4) + "cam" + std::string(1, '\0')) +
         (n(0x0112, 2) + n(3, 2) + n(1, 4) + n(static_cast<uint32_t>(orientation), 2) + n(0, 2)) +
         n(0, 4);
}

std::string jpeg_with(const std::string& exif) {
  const std::string file = test::read_bytes(test::source_dir() + "/tests/image/files/six.jpg");
  const std::string held = std::string("Exif\0\0", 6) + exif;
  return file.substr(0, 2) + "\xff\xe1" +
         number(static_cast<uint32_t>(held.size()) + 2, 2, Order::big) + held + file.substr(2);
}

std::string png_with(const std::string& exif) {
  const std::string file = to_png({2, 3, 1, {0, 0.2f, 0.4f, 0.6f, 0.8f, 1}});
  const std::string named = "eXIf" + exif;
  const auto sum =
      crc32(0, reinterpret_cast<const Bytef*>(named.data()), static_cast<uInt>(named.size()));
  constexpr size_t kAfterHeader = 33;
  return file.substr(0, kAfterHeader) + number(static_cast<uint32_t>(exif.size()), 4, Order::big) +
         named + number(static_cast<uint32_t>(sum), 4, Order::big) + file.substr(kAfterHeader);
}

// The six parts as they are seen, each `side` pixels wide.
void expect_seen(const Image& x, const Held& held, int64_t side) {
  ASSERT_EQ(x.height, held.height * side);
  ASSERT_EQ(x.width, held.width * side);
  for (int64_t i = 0; i < held.height; ++i) {
    for (int64_t j = 0; j < held.width; ++j) {
      const int64_t row = i * side + side / 2, column = j * side + side / 2;
      const float value = x.pixels[static_cast<size_t>(row * x.width + column)];
      const int part = held.seen[static_cast<size_t>(i * held.width + j)];
      EXPECT_NEAR(255 * value, side == 1 ? 51 * part : 50 * part, 4) << i << ", " << j;
    }
  }
}

TEST(Exif, AllEightWaysToHoldACamera) {
  for (const Held& held : kHeld) {
    for (const Order order : {Order::little, Order::big}) {
      SCOPED_TRACE(held.number);
      expect_seen(decoded(jpeg_with(tiff(held.number, order)), "x.jpg"), held, 8);
      expect_seen(decoded(png_with(tiff(held.number, order)), "x.png"), held, 1);
    }
  }
}

TEST(Exif, ColoursTurnWithTheirPixels) {
  const Image x = turned({1, 2, 3, {1, 2, 3, 4, 5, 6}}, Orientation::right_top);
  EXPECT_EQ(x.height, 2);
  EXPECT_EQ(x.width, 1);
  EXPECT_EQ(x.pixels, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(turned({1, 2, 3, {1, 2, 3, 4, 5, 6}}, Orientation::top_right).pixels,
            (std::vector<float>{4, 5, 6, 1, 2, 3}));
}

// What it says wrongly is passed by: the picture is as it is stored, never an error.
TEST(Exif, LiesAreNotBelieved) {
  const std::string good = tiff(6, Order::big);
  std::vector<std::string> lies = {"", "MM", "XX", tiff(0, Order::big), tiff(9, Order::little)};
  for (size_t n = 0; n + 16 < good.size(); ++n) lies.push_back(good.substr(0, n));
  for (const uint32_t far : {9u, 60u, 0x7fffffffu, 0xffffffffu}) {
    lies.push_back(good.substr(0, 4) + number(far, 4, Order::big) + good.substr(8));
  }
  std::string of_another_type = good;
  of_another_type[8 + 2 + 12 + 3] = 4;
  lies.push_back(of_another_type);
  for (const std::string& lie : lies) {
    expect_seen(decoded(jpeg_with(lie), "x.jpg"), kHeld[0], 8);
    expect_seen(decoded(png_with(lie), "x.png"), kHeld[0], 1);
  }
}

TEST(Exif, FilesThatEndOrLieAnywhereAreSafe) {
  for (const std::string& file : {jpeg_with(tiff(6, Order::big)), png_with(tiff(6, Order::big))}) {
    for (size_t n = 0; n < file.size(); ++n) {
      orientation_in(file.substr(0, n));
      std::string other = file;
      other[n] = static_cast<char>(~other[n]);
      orientation_in(other);
      other[n] = '\xff';
      orientation_in(other);
    }
  }
}

}  // namespace
}  // namespace fovea::image
