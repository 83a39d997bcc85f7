#include "image/image_file.h"

#include <gtest/gtest.h>

#include <string>

#include "errors.h"
#include "io/files.h"
#include "tests/where.h"

namespace fovea::image {
namespace {

using test::error_of;
using test::has;

std::string path_of(const std::string& name) {
  return test::source_dir() + "/tests/image/files/" + name;
}
std::string bytes_of(const std::string& name) { return test::read_bytes(path_of(name)); }

void expect_pixel(const Image& x, int64_t row, int64_t column, std::vector<double> bytes,
                  double within = 0.6) {
  ASSERT_EQ(static_cast<size_t>(x.channels), bytes.size());
  for (size_t c = 0; c < bytes.size(); ++c) {
    const auto at = static_cast<size_t>((row * x.width + column) * x.channels) + c;
    EXPECT_NEAR(255 * x.pixels[at], bytes[c], within) << row << ", " << column << ", " << c;
  }
}

TEST(ImageFile, ReadsPngPixelByPixel) {
  const Image x = read_image(path_of("rgb.png"));
  ASSERT_EQ(x.height, 3);
  ASSERT_EQ(x.width, 4);
  expect_pixel(x, 0, 0, {255, 0, 0});
  expect_pixel(x, 0, 3, {10, 20, 30});
  expect_pixel(x, 2, 1, {50, 100, 150});
}

TEST(ImageFile, WhatIsTransparentLiesOnWhite) {
  const Image x = read_image(path_of("rgba.png"));
  expect_pixel(x, 0, 0, {255, 0, 0});
  expect_pixel(x, 0, 2, {255, 255, 255});
  const float half = x.pixels[3 * 1];  // green at one half, on white
  EXPECT_GT(half, 0.4f);
  EXPECT_LT(half, 0.8f);
}

TEST(ImageFile, ReadsPalettesGreyAndSixteenBits) {
  const Image palette = read_image(path_of("palette.png"));
  expect_pixel(palette, 0, 0, {255, 0, 0}, 3);
  expect_pixel(palette, 2, 1, {50, 100, 150}, 3);
  const Image grey = read_image(path_of("grey.png"));
  expect_pixel(grey, 1, 0, {100});
  const Image deep = read_image(path_of("grey16.png"));
  expect_pixel(deep, 0, 1, {255});
  expect_pixel(deep, 0, 2, {127.5}, 1);
  expect_pixel(deep, 1, 0, {200}, 1);
}

TEST(ImageFile, ReadsJpegOfEveryColourSpace) {
  for (const char* name : {"rgb.jpg", "progressive.jpg", "cmyk.jpg"}) {
    SCOPED_TRACE(name);
    const Image x = read_image(path_of(name));
    ASSERT_EQ(x.height, 16);
    ASSERT_EQ(x.width, 24);
    expect_pixel(x, 5, 7, {200, 60, 20}, 6);
  }
  expect_pixel(read_image(path_of("grey.jpg")), 3, 3, {90}, 3);
}

TEST(ImageFile, WhatIsWrittenIsReadBack) {
  for (const int64_t channels : {1, 3}) {
    Image x{5, 7, channels, {}};
    for (int64_t i = 0; i < 35 * channels; ++i) {
      x.pixels.push_back(static_cast<float>(i * 37 % 256) / 255.0f);
    }
    const Image y = decoded(to_png(x), "x");
    EXPECT_EQ(y.height, 5);
    EXPECT_EQ(y.width, 7);
    EXPECT_EQ(y.channels, channels);
    ASSERT_EQ(y.pixels.size(), x.pixels.size());
    for (size_t i = 0; i < x.pixels.size(); ++i) EXPECT_NEAR(y.pixels[i], x.pixels[i], 1e-6f);
  }
  EXPECT_TRUE(has(error_of([] { to_png({2, 2, 3, {1.0f}}); }), "1 numbers for 2 × 2"));
}

TEST(ImageFile, ChannelsAreMadeToFit) {
  const Image grey = with_channels({1, 1, 3, {1.0f, 0.5f, 0.0f}}, 1);
  ASSERT_EQ(grey.pixels.size(), 1u);
  EXPECT_NEAR(grey.pixels[0], 0.299f + 0.2935f, 1e-6f);
  EXPECT_EQ(with_channels({1, 1, 1, {0.25f}}, 3).pixels, (std::vector<float>{0.25f, 0.25f, 0.25f}));
  EXPECT_TRUE(has(error_of([] { with_channels({1, 1, 1, {0.25f}}, 4); }), "expected 1 or 3"));
}

TEST(ImageFile, NamesWhatIsNoImage) {
  EXPECT_TRUE(has(error_of([] { decoded("", "a.png"); }), "a.png: the file is empty"));
  EXPECT_TRUE(
      has(error_of([] { decoded("GIF89a", "a.gif"); }), "a.gif: it is neither PNG nor JPEG"));
  EXPECT_TRUE(has(error_of([] { read_image("/nowhere/b.png"); }), "/nowhere/b.png: No such file"));
  EXPECT_TRUE(has(error_of([] { read_image("/tmp"); }), "is a folder"));
}

// Sizes are believed only where they are allowed and the bytes can hold them.
TEST(ImageFile, RefusesHeadersThatPromiseTooMuch) {
  EXPECT_TRUE(
      has(error_of([] { read_image(path_of("huge.png")); }), "60000 × 60000 pixels; at most"));
  EXPECT_TRUE(
      has(error_of([] { read_image(path_of("huge.jpg")); }), "65000 × 65000 pixels; at most"));
  EXPECT_TRUE(has(error_of([] { read_image(path_of("lying.png")); }), "cannot hold 8000 × 8000"));
  EXPECT_TRUE(has(error_of([] { decoded(bytes_of("rgb.png"), "x", {.side = 3}); }), "at most 3"));
  EXPECT_TRUE(has(error_of([] { decoded(bytes_of("rgb.jpg"), "x", {.pixels = 100}); }), "24 × 16"));
  EXPECT_TRUE(has(error_of([] { read_image(path_of("rgb.png"), {.bytes = 10}); }), "are read"));
}

// Every cut and every flipped byte: an image of the allowed size, or an error.
TEST(ImageFile, DamageIsAnErrorOrAnImage) {
  for (const char* name : {"rgb.png", "rgba.png", "palette.png", "grey16.png", "rgb.jpg",
                           "progressive.jpg", "cmyk.jpg"}) {
    SCOPED_TRACE(name);
    const std::string good = bytes_of(name);
    ASSERT_FALSE(good.empty());
    int refused = 0;
    const auto attempt = [&](const std::string& bytes) {
      try {
        const Image x = decoded(bytes, name, {.side = 4096, .pixels = 1 << 20});
        EXPECT_EQ(static_cast<int64_t>(x.pixels.size()), x.height * x.width * x.channels);
      } catch (const Error&) {
        ++refused;
      }
    };
    for (size_t n = 0; n < good.size(); ++n) attempt(good.substr(0, n));
    EXPECT_GT(refused, static_cast<int>(good.size()) * 3 / 4);
    for (size_t n = 0; n < good.size(); ++n) {
      std::string bad = good;
      bad[n] = static_cast<char>(bad[n] ^ 0x55);
      attempt(bad);
    }
  }
}

TEST(ImageFile, ATruncatedJpegIsNotFilledWithGrey) {
  const std::string good = bytes_of("rgb.jpg");
  EXPECT_TRUE(
      has(error_of([&] { decoded(good.substr(0, good.size() - 12), "cut.jpg"); }), "cut.jpg: a"));
}

TEST(ImageFile, GoesByTheNamesEnding) {
  for (const char* name : {"a.png", "b.JPG", "c.Jpeg"}) EXPECT_TRUE(is_image_name(name)) << name;
  for (const char* name : {"a.gif", "png", "b.png.txt"}) EXPECT_FALSE(is_image_name(name)) << name;
}

}  // namespace
}  // namespace fovea::image
