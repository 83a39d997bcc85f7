#include "core/memory_available.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "fovea/error.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// The file's number; `otherwise` where there is none ("max", or no such file).
int64_t number_in(const fs::path& file, int64_t otherwise) {
  std::ifstream in(file);
  int64_t n = 0;
  return in >> n ? n : otherwise;
}

// Lines "NAME VALUE …" of a file: the value of a name, 0 where it has none.
int64_t value_of(const fs::path& file, const std::string& name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string word;
    int64_t n = 0;
    if (words >> word && word == name && words >> n) return n;
  }
  return 0;
}

// What files of a control group are called in one of the two hierarchies.
struct Names {
  const char *limit, *used, *cached[2];
};
constexpr Names kUnified = {"memory.max", "memory.current", {"inactive_file", "active_file"}};
constexpr Names kFormer = {
    "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}};

// What is left to a group and those above it.
int64_t left_to(const fs::path& root, fs::path group, const Names& names) {
  int64_t least = kNoLimit;
  for (;; group = group.parent_path()) {
    const fs::path at = root / group;
    const int64_t limit = number_in(at / names.limit, kNoLimit);
    if (limit < kNoLimit) {
      int64_t used = number_in(at / names.used, 0);
      for (const char* cached : names.cached) used -= value_of(at / "memory.stat", cached);
      // The kernel counts both apart from each other: for a moment there is more cached than used.
      least = std::min(least, limit - std::clamp<int64_t>(used, 0, limit));
    }
    if (group.empty()) return least;
  }
}

}  // namespace

int64_t memory_available(const fs::path& groups, const fs::path& of_process,
                         const fs::path& machine) {
  const int64_t free_kib = value_of(machine, "MemAvailable:");
  int64_t least = free_kib > 0 ? free_kib * 1024 : kNoLimit;
  std::ifstream lines(of_process);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("0::/"))
      least = std::min(least, left_to(groups, line.substr(4), kUnified));
    const size_t former = line.find(":memory:/");
    if (former == std::string::npos) continue;
    least = std::min(least, left_to(groups / "memory", line.substr(former + 9), kFormer));
  }
  return least;
}

int64_t memory_available() {
  return memory_available("/sys/fs/cgroup", "/proc/self/cgroup", "/proc/meminfo");
}

void check_room(const char* call, const std::string& what, int64_t bytes,
                const std::string& lower) {
  const int64_t there = memory_available();
  if (bytes <= there) return;
  const auto gb = [](int64_t n) { return static_cast<double>(n) / 1e9; };
  throw Error(call, fmt::format("{} needs {:.1f} GB, and {:.1f} GB are free; lower {}", what,
                                gb(bytes), gb(there), lower));
}

}  // namespace fovea
