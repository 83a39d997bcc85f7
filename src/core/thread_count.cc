#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <thread>

#include "core/threads.h"
#include "fovea/error.h"

// How many threads suit: what the user says, else what the process may run on.
namespace fovea {
namespace {

namespace fs = std::filesystem;

constexpr int kMost = 4096;

std::optional<int> number(const std::string& text) {
  int n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return n;
}

std::string environment(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

// CPUs this process may run on.
int allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

// "quota period", in microseconds, or "max period".
int cpus_of_quota(std::istream&& file) {
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || !(period > 0)) return kMost;
  const std::optional<int> us = number(quota);
  return us && *us > 0 ? std::max(1, static_cast<int>(std::ceil(*us / period))) : kMost;
}

}  // namespace

// The smallest quota of the process's control group and those above it; kMost where there is none.
int quota_cpus(const fs::path& root, const fs::path& of_process) {
  std::ifstream groups(of_process);
  int least = kMost;
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::/")) continue;  // the unified hierarchy
    for (fs::path group = line.substr(4);; group = group.parent_path()) {
      least = std::min(least, cpus_of_quota(std::ifstream(root / group / "cpu.max")));
      if (group.empty()) break;
    }
  }
  std::stringstream old;  // the hierarchy before it
  std::ifstream quota(root / "cpu/cpu.cfs_quota_us"), period(root / "cpu/cpu.cfs_period_us");
  if (quota && period) old << quota.rdbuf() << ' ' << period.rdbuf();
  return std::min(least, cpus_of_quota(std::move(old)));
}

int threads_by_default() {
  if (const std::string text = environment("FOVEA_THREADS"); !text.empty()) {
    const std::optional<int> n = number(text);
    if (n && *n >= 1 && *n <= kMost) return *n;
    throw Error("threads", "FOVEA_THREADS must be a number from 1 to 4096, found '" + text + "'");
  }
  // OpenMP's list has a number for each level of nesting; this is the first.
  const std::string omp = environment("OMP_NUM_THREADS");
  const std::optional<int> asked = number(omp.substr(0, omp.find(',')));
  if (asked && *asked >= 1) return std::min(*asked, kMost);
  return std::min(allowed_cpus(), quota_cpus("/sys/fs/cgroup", "/proc/self/cgroup"));
}

}  // namespace fovea
