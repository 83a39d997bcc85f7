#include "image/idx.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "errors.h"
#include "io/files.h"

namespace fovea::image {
namespace {

using test::error_of;
using test::Folder;
using test::has;

std::string number(uint32_t n) {
  return {static_cast<char>(n >> 24), static_cast<char>(n >> 16), static_cast<char>(n >> 8),
          static_cast<char>(n)};
}

std::string header(const std::vector<uint32_t>& shape, uint8_t type = 8) {
  std::string bytes = {0, 0, static_cast<char>(type), static_cast<char>(shape.size())};
  for (const uint32_t n : shape) bytes += number(n);
  return bytes;
}

Idx parsed_idx(std::string bytes) {
  return parse_idx("some", [bytes, at = size_t{0}](char* to, size_t most) mutable {
    const size_t n = std::min({most, bytes.size() - at, size_t{7}});  // in small pieces
    std::memcpy(to, bytes.data() + at, n);
    at += n;
    return n;
  });
}

void write_gzip(const std::filesystem::path& path, const std::string& bytes) {
  gzFile file = gzopen(path.c_str(), "wb9");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
}

TEST(Idx, ImagesAndLabelsFromPlainAndPackedFiles) {
  const Folder folder;
  std::string pixels;
  for (int i = 0; i < 2 * 3 * 2; ++i) pixels += static_cast<char>(20 * i);
  test::write_bytes(folder / "images", header({2, 3, 2}) + pixels);
  write_gzip(folder / "labels.gz", header({2}) + std::string{7, 12});
  EXPECT_TRUE(is_idx(folder / "images"));
  EXPECT_TRUE(is_idx(folder / "labels.gz"));
  EXPECT_FALSE(is_idx(folder / "nowhere"));
  const LabelledImages found = read_idx(folder / "images", folder / "labels.gz");
  ASSERT_EQ(found.images.size(), 2u);
  EXPECT_EQ(found.classes.size(), 13u);
  EXPECT_EQ(found.images[1].label, 12);
  EXPECT_EQ(found.images[1].image.height, 3);
  EXPECT_EQ(found.images[1].image.width, 2);
  EXPECT_FLOAT_EQ(found.images[1].image.pixels[1], 140.0f / 255.0f);
}

TEST(Idx, WhatItSaysMustBeThere) {
  const auto error = [](const std::string& bytes) { return error_of([&] { parsed_idx(bytes); }); };
  EXPECT_TRUE(has(error(""), "ends within the header"));
  EXPECT_TRUE(has(error(header({2}).substr(0, 7)), "ends within the header"));
  EXPECT_TRUE(has(error("PNG and more"), "is no idx file"));
  EXPECT_TRUE(has(error(header({1, 1, 1, 1, 1}) + "x"), "is no idx file"));
  EXPECT_TRUE(has(error(header({1}, 0x0d) + "xxxx"), "type 0x0d"));
  EXPECT_TRUE(has(error(header({3}) + "ab"), "says 3 = 3 values and has 2"));
  EXPECT_TRUE(has(error(header({3}) + "abcd"), "has more"));
  EXPECT_TRUE(has(error(header({1u << 31, 1u << 31, 4})), "at most"));
  EXPECT_TRUE(has(error(header({~0u, ~0u, ~0u, ~0u})), "at most"));
  // Nothing is taken for two gigabytes that never come.
  EXPECT_TRUE(has(error(header({1u << 31}) + "abc"), "and has 3"));
  EXPECT_TRUE(parsed_idx(header({0, 28, 28})).values.empty());
  EXPECT_TRUE(has(error_of([] { images_of("labels", {{2}, {1, 2}}); }), "expected images"));
  EXPECT_TRUE(has(error_of([] { images_of("empty", {{2, 0, 5}, {}}); }), "no pixels"));
  EXPECT_TRUE(images_of("none", {{0, 4294967295, 4294967295}, {}}).empty());
}

TEST(Idx, UnequalNumbersAndPackedNothing) {
  const Folder folder;
  test::write_bytes(folder / "images", header({2, 1, 1}) + "ab");
  test::write_bytes(folder / "labels", header({1}) + "a");
  EXPECT_TRUE(has(error_of([&] { read_idx(folder / "images", folder / "labels"); }), "2 images"));
  write_gzip(folder / "bomb", header({1u << 30}) + std::string(size_t{30} << 20, '\0'));
  EXPECT_TRUE(has(error_of([&] { read_idx(folder / "bomb"); }), "times its size"));
  EXPECT_TRUE(has(error_of([&] { read_idx(folder / "nowhere"); }), "nowhere"));
}

}  // namespace
}  // namespace fovea::image
