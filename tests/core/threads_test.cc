#include "core/threads.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "fovea/error.h"
#include "tests/core/with_threads.h"
#include "tests/reduced.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;

int64_t sum_in_parallel(int64_t n) {
  std::atomic<int64_t> total{0};
  parallel_for(n, [&](int64_t i) { total += i; });
  return total;
}

// Thousands of short regions: whoever comes late must neither miss work nor touch what is gone.
TEST(Pool, ShortRegionsOneAfterAnother) {
  const Threads four(4);
  for (int round = 0; round < 20000; ++round) ASSERT_EQ(sum_in_parallel(5), 10) << round;
}

// Two tasks that wait for each other, for a while: whether two threads had them. Where other
// programs want the cores, one thread has both.
bool two_at_once(const std::function<void()>& on_the_worker = {}) {
  std::atomic<int> arrived{0};
  std::atomic<bool> met{false};
  Crew().run(2, [&](int64_t, int place) {
    ++arrived;
    if (place == 1 && on_the_worker) on_the_worker();
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
    while (arrived < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    if (place == 1) met = true;
  });
  return met;
}

TEST(Pool, WorkersWakeUpAgain) {
  const Threads four(4);
  int met = 0;
  for (int round = 0; round < 50 && met < 10; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // long enough to fall asleep
    met += two_at_once();
  }
  EXPECT_GE(met, 1);
}

// Schedulers may leave a worker on the caller's CPU for as long as both are busy.
TEST(PoolSerial, AWorkerLeavesTheCallersCpu) {
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  if (CPU_COUNT(&all) < 2) GTEST_SKIP() << "one CPU";
  const Threads two(2);
  int apart = 0, tried = 0;
  const auto shown = [&] { return tried >= 5 && 10 * apart >= 7 * tried; };
  for (int round = 0; round < 100 && !shown(); ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const int cpu = sched_getcpu();
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(cpu), &one);
    int found = -1;
    bool there = two_at_once([&] { sched_setaffinity(0, sizeof one, &one); });
    there = two_at_once([&] { sched_setaffinity(0, sizeof all, &all); }) && there;  // it stays
    sched_setaffinity(0, sizeof one, &one);  // and so does the caller
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    there = two_at_once([&] { found = sched_getcpu(); }) && there;
    sched_setaffinity(0, sizeof all, &all);
    tried += there;
    apart += there && found != cpu;
  }
  if (tried < 5) GTEST_SKIP() << "other programs want the cores";
  EXPECT_TRUE(shown()) << apart << " of " << tried;
}

TEST(Pool, TheTeamMayChange) {
  for (const int n : {1, 3, 2, 8, 1, 4}) {
    const Threads some(n);
    EXPECT_EQ(sum_in_parallel(1000), 499500) << n;
  }
}

// A child has none of its parent's threads.
TEST(Pool, AForkedChildHasItsOwn) {
  if (test::emulated())
    GTEST_SKIP() << "qemu's own state does not survive a thread of a forked child";
  const Threads two(2);
  ASSERT_EQ(sum_in_parallel(100), 4950);
  const pid_t child = fork();
  if (child == 0) _exit(sum_in_parallel(100) == 4950 ? 7 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

// ---- How many ----------------------------------------------------------------------------------

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) before_ = old, was_ = true;
    value != nullptr ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Variable() { was_ ? setenv(name_, before_.c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::string before_;
  bool was_ = false;
};

TEST(ThreadCount, IsWhatTheEnvironmentSays) {
  const Variable none("FOVEA_THREADS", nullptr);
  {
    const Variable omp("OMP_NUM_THREADS", "3");
    EXPECT_EQ(threads_by_default(), 3);
    const Variable own("FOVEA_THREADS", "5");
    EXPECT_EQ(threads_by_default(), 5);
  }
  const Variable levels("OMP_NUM_THREADS", "7,2");
  EXPECT_EQ(threads_by_default(), 7);
  for (const char* wrong : {"0", "-1", "two", "3x", "99999999999", "4097"}) {
    const Variable own("FOVEA_THREADS", wrong);
    EXPECT_THROW(threads_by_default(), Error) << wrong;
  }
}

TEST(ThreadCount, IsNoMoreThanTheAffinity) {
  const Variable none("FOVEA_THREADS", nullptr), neither("OMP_NUM_THREADS", nullptr);
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(threads_by_default(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

TEST(ThreadCount, KnowsTheGroupsQuota) {
  const fs::path root = fs::temp_directory_path() / ("fovea-quota-" + std::to_string(getpid()));
  fs::create_directories(root / "a/b");
  const auto write = [&](const fs::path& file, const std::string& text) {
    std::ofstream(root / file) << text;
  };
  const auto cpus = [&] { return quota_cpus(root, root / "of_process"); };
  write("of_process", "0::/a/b\n");
  EXPECT_GE(cpus(), 1000);  // none
  write("a/b/cpu.max", "max 100000\n");
  EXPECT_GE(cpus(), 1000);
  write("a/b/cpu.max", "250000 100000\n");
  EXPECT_EQ(cpus(), 3);
  write("a/cpu.max", "50000 100000\n");  // the group above has less
  EXPECT_EQ(cpus(), 1);
  write("a/cpu.max", "nonsense");
  EXPECT_EQ(cpus(), 3);
  write("of_process", "4:cpu,cpuacct:/x\n");
  EXPECT_GE(cpus(), 1000);
  fs::create_directories(root / "cpu");
  write("cpu/cpu.cfs_quota_us", "150000\n");
  write("cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpus(), 2);
  write("cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT_GE(cpus(), 1000);
  fs::remove_all(root);
}

}  // namespace
}  // namespace fovea
