#include "core/memory_available.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace fovea {
namespace {

namespace fs = std::filesystem;

TEST(MemoryAvailable, IsWhatTheMachineOrAControlGroupLeaves) {
  const fs::path root = fs::temp_directory_path() / ("fovea-memory-" + std::to_string(getpid()));
  fs::create_directories(root / "a/b");
  fs::create_directories(root / "memory/c/d");
  const auto write = [&](const fs::path& file, const std::string& text) {
    std::ofstream(root / file) << text;
  };
  const auto there = [&] { return memory_available(root, root / "of_process", root / "meminfo"); };
  EXPECT_EQ(there(), INT64_MAX);  // nothing is known
  write("meminfo", "MemTotal:  9000 kB\nMemAvailable:   8000 kB\nSwapFree:  5 kB\n");
  write("of_process", "0::/a/b\n");
  EXPECT_EQ(there(), 8000 * 1024);
  write("a/b/memory.max", "max\n");
  write("a/b/memory.current", "1000000\n");
  EXPECT_EQ(there(), 8000 * 1024);
  write("a/b/memory.max", "5000000\n");
  EXPECT_EQ(there(), 4000000);
  write("a/b/memory.stat", "anon 900000\ninactive_file 30000\nactive_file 20000\n");
  EXPECT_EQ(there(), 4050000);  // cached files give way
  write("a/memory.max", "2000000\n");
  write("a/memory.current", "1500000\n");
  EXPECT_EQ(there(), 500000);  // the group above has less
  write("a/memory.current", "2500000\n");
  EXPECT_EQ(there(), 0);
  // The hierarchy before.
  write("of_process", "7:cpu:/c/d\n4:memory:/c/d\n");
  EXPECT_EQ(there(), 8000 * 1024);
  write("memory/c/memory.limit_in_bytes", "3000000\n");
  write("memory/c/memory.usage_in_bytes", "1000000\n");
  write("memory/c/memory.stat", "total_inactive_file 7\n");
  EXPECT_EQ(there(), 2000007);
  // No limit, as that hierarchy says it, and more cached than used.
  write("memory/c/memory.limit_in_bytes", "9223372036854771712\n");
  write("memory/c/memory.stat", "total_inactive_file 2000000\n");
  EXPECT_EQ(there(), 8000 * 1024);
  fs::remove_all(root);
}

TEST(MemoryAvailable, OfThisMachineIsSome) {
  EXPECT_GT(memory_available(), int64_t{1} << 20);
  EXPECT_LT(memory_available(), int64_t{1} << 50);
}

}  // namespace
}  // namespace fovea
