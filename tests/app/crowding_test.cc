#include "app/crowding.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

namespace fovea::app {
namespace {

using std::chrono::milliseconds;

constexpr int64_t kMillisecond = 1'000'000;

// A team and a clock that the test moves, a while of 20 ms after the other.
class Clock {
 public:
  explicit Clock(int team) : team_(team) {}
  // How many threads it has after a while in which they stood in the queue for so long.
  int team_after(int64_t queued_ms) {
    crowding_.note(queued_ms * kMillisecond);
    now_ += milliseconds(20);
    return crowding_.allowed(team_, now_);
  }
  // For how many further whiles it stays limited, nobody else being there.
  int limited_for() {
    int whiles = 0;
    while (team_after(0) < team_) ++whiles;
    return whiles;
  }

 private:
  int team_;
  Crowding crowding_;
  Crowding::Time now_{std::chrono::hours(1)};
};

TEST(Crowding, AloneWhileOthersWantTheCores) {
  Clock clock(2);
  EXPECT_EQ(clock.team_after(0), 2);
  EXPECT_EQ(clock.team_after(5), 2);
  EXPECT_EQ(clock.team_after(25), 1);
  EXPECT_EQ(clock.limited_for(), 2);
  EXPECT_EQ(clock.team_after(25), 1);  // tried, and found no better
  EXPECT_EQ(clock.limited_for(), 4);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(clock.team_after(25), 1);
    EXPECT_LE(clock.limited_for(), 40);  // never longer than a second
  }
  EXPECT_EQ(clock.team_after(0), 2);  // they are gone
  EXPECT_EQ(clock.team_after(25), 1);
  EXPECT_EQ(clock.limited_for(), 2);
}

// More threads than cores stand in their own way: half of them do not.
TEST(Crowding, GivesUpAsManyAsItMust) {
  Clock clock(8);
  EXPECT_EQ(clock.team_after(0), 8);
  EXPECT_EQ(clock.team_after(80), 4);
  EXPECT_EQ(clock.team_after(5), 4);
  EXPECT_EQ(clock.team_after(40), 2);
  EXPECT_EQ(clock.team_after(0), 8);  // 50 ms have passed
}

TEST(Crowding, BetweenTwoLooksNothingChanges) {
  Crowding crowding;
  const Crowding::Time now{std::chrono::hours(1)};
  EXPECT_EQ(crowding.allowed(2, now), 2);
  crowding.note(25 * kMillisecond);
  EXPECT_EQ(crowding.allowed(2, now + milliseconds(10)), 2);
  EXPECT_EQ(crowding.allowed(2, now + milliseconds(20)), 1);
  EXPECT_EQ(crowding.allowed(2, now + milliseconds(25)), 1);
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

// Whatever the crowd, all of the work is done, once.
TEST(Considerate, DoesAllOfItsWork) {
  std::atomic<int64_t> handed_on{0};
  const Executor own{[] { return 4; },
                     [&](int64_t n, const std::function<void(int64_t)>& body) {
                       handed_on += n;
                       for (int64_t i = n; i-- > 0;) body(i);
                     }};
  const Executor executor = considerate(own);
  EXPECT_EQ(executor.threads(), 4);
  for (const int64_t n : {1, 2, 4}) {
    std::vector<int> times(static_cast<size_t>(n));
    executor.run(n, [&](int64_t i) { ++times[static_cast<size_t>(i)]; });
    EXPECT_EQ(times, std::vector<int>(static_cast<size_t>(n), 1)) << n;
  }
  EXPECT_LE(handed_on, 6);
}

}  // namespace
}  // namespace fovea::app
