#include "io/plain_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "errors.h"
#include "io/files.h"
#include "io/gzip.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;
using test::has;

std::string refused(const fs::path& path) {
  try {
    read_plain_file(path, 100);
  } catch (const Unreadable& e) {
    return e.what();
  }
  return "no error";
}

TEST(PlainFile, IsReadWhole) {
  const test::Folder folder;
  test::write_bytes(folder / "a", std::string("one\0two", 7));
  EXPECT_EQ(read_plain_file(folder / "a", 7), std::string("one\0two", 7));
  fs::create_symlink(folder / "a", folder / "link");
  EXPECT_EQ(read_plain_file(folder / "link", 7).size(), 7u);
  test::write_bytes(folder / "long", std::string(101, 'x'));
  EXPECT_EQ(refused(folder / "long"), "101 bytes, at most 100 are read");
}

// None of them is waited for: nobody ever writes to the pipe.
TEST(PlainFile, WhatIsNoFileIsRefused) {
  const test::Folder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_TRUE(has(refused(folder / "pipe"), "is a pipe"));
  EXPECT_TRUE(has(refused(folder / "."), "is a folder"));
  EXPECT_TRUE(has(refused("/dev/zero"), "is a device"));
  EXPECT_TRUE(has(refused("/dev/null"), "is a device"));
  EXPECT_TRUE(has(refused(folder / "none"), "No such file"));
  EXPECT_THROW(open_gzip(folder / "pipe"), Unreadable);
  EXPECT_THROW(open_gzip("/dev/zero"), Unreadable);
}

}  // namespace
}  // namespace fovea
