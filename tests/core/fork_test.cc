#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "core/allocator.h"
#include "tests/reduced.h"

namespace fovea {
namespace {

// A thread of the parent may hold the allocator's lists at the moment of a fork. The child has no
// such thread, and must find them free and whole.
TEST(Fork, AChildCanAllocateWhateverOtherThreadsDid) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "a sanitizer's own malloc does not survive a fork beside busy threads";
#endif
  allocate(64);  // a fork while a static is being made leaves it so, as it does anywhere in C++
  std::atomic<bool> stop{false};
  std::vector<std::thread> busy;
  for (int t = 0; t < 3; ++t) {
    busy.emplace_back([&stop, t] {
      while (!stop.load(std::memory_order_relaxed)) {
        const auto a = allocate(64), b = allocate(1000 * (t + 1)), c = allocate(64);
      }
    });
  }
  const int forks = test::reduced() ? 20 : 300;
  int right = 0;
  for (int i = 0; i < forks; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);  // a child that hangs dies of it
      for (int n = 0; n < 20; ++n) {
        const auto a = allocate(64), b = allocate(2000);
        std::memset(b.get(), n, 2000);
      }
      _exit(7);
    }
    int status = 0;
    waitpid(child, &status, 0);
    right += WIFEXITED(status) && WEXITSTATUS(status) == 7;
  }
  stop = true;
  for (std::thread& t : busy) t.join();
  EXPECT_EQ(right, forks);
}

}  // namespace
}  // namespace fovea
