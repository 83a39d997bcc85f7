#include "core/crowding.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace fovea {
namespace {

using std::chrono::milliseconds;

constexpr int64_t kMillisecond = 1'000'000;

// Two threads and a clock that the test moves, a while of 20 ms after the other.
class Clock {
 public:
  // Whether it works alone after a while in which its threads stood in the queue for so long.
  bool alone_after(int64_t queued_ms) {
    crowding_.note(queued_ms * kMillisecond);
    now_ += milliseconds(20);
    return crowding_.alone(2, now_);
  }
  // For how many further whiles it stays alone, nobody else being there.
  int alone_for() {
    int whiles = 0;
    while (alone_after(0)) ++whiles;
    return whiles;
  }

 private:
  Crowding crowding_;
  Crowding::Time now_{std::chrono::hours(1)};
};

TEST(Crowding, AloneWhileOthersWantTheCores) {
  Clock clock;
  EXPECT_FALSE(clock.alone_after(0));
  EXPECT_FALSE(clock.alone_after(5));
  EXPECT_TRUE(clock.alone_after(25));
  EXPECT_EQ(clock.alone_for(), 2);
  EXPECT_TRUE(clock.alone_after(25));  // tried, and found no better
  EXPECT_EQ(clock.alone_for(), 4);
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(clock.alone_after(25));
    EXPECT_LE(clock.alone_for(), 40);  // never longer than a second
  }
  EXPECT_FALSE(clock.alone_after(0));  // they are gone
  EXPECT_TRUE(clock.alone_after(25));
  EXPECT_EQ(clock.alone_for(), 2);
}

TEST(Crowding, BetweenTwoLooksNothingChanges) {
  Crowding crowding;
  Crowding::Time now{std::chrono::hours(1)};
  EXPECT_FALSE(crowding.alone(2, now));
  crowding.note(25 * kMillisecond);
  EXPECT_FALSE(crowding.alone(2, now + milliseconds(10)));
  EXPECT_TRUE(crowding.alone(2, now + milliseconds(20)));
}

// Two threads that want one CPU: one of them stands in its queue at any time.
TEST(Crowding, TimeInTheQueueIsSeen) {
  if (access("/proc/thread-self/schedstat", R_OK) != 0) GTEST_SKIP() << "not known here";
  std::atomic<int64_t> queued{0};
  const auto busy = [&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) return;
    queued_since_last();
    const auto end = std::chrono::steady_clock::now() + milliseconds(100);
    while (std::chrono::steady_clock::now() < end) {
    }
    queued += queued_since_last();
  };
  std::thread a(busy), b(busy);
  a.join();
  b.join();
  EXPECT_GT(queued.load(), 30 * kMillisecond);
}

}  // namespace
}  // namespace fovea
