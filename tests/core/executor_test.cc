#include <gtest/gtest.h>

#include <mutex>
#include <stdexcept>
#include <vector>

#include "core/threads.h"
#include "fovea/error.h"
#include "tests/core/own_executor.h"
#include "tests/core/with_threads.h"
#include "tests/errors.h"

namespace fovea {
namespace {

TEST(Executor, OfAProgramDoesEveryPieceOnce) {
  const int own = threads();
  {
    const OwnExecutor executor(3);
    EXPECT_EQ(threads(), 3);
    std::vector<int> times(1000);
    parallel_for(1000, [&](int64_t i) { ++times[static_cast<size_t>(i)]; });
    EXPECT_EQ(times, std::vector<int>(1000, 1));
    EXPECT_EQ(executor.runs, 1);
    parallel_for(1, [](int64_t) {});  // nothing to share
    EXPECT_EQ(executor.runs, 1);
  }
  EXPECT_EQ(threads(), own);
}

// One place is one body's at a time, whoever runs them.
TEST(Executor, GivesPlacesOfTheirOwn) {
  const OwnExecutor executor(4);
  const Crew crew;
  ASSERT_EQ(crew.size(), 4);
  std::vector<std::mutex> places(4);
  std::atomic<int> shared{0};
  crew.run(2000, [&](int64_t, int place) {
    const std::unique_lock lock(places[static_cast<size_t>(place)], std::try_to_lock);
    if (!lock) ++shared;
  });
  EXPECT_EQ(shared, 0);
}

TEST(Executor, BringsErrorsBackAndRunsNestedWorkInPlace) {
  const OwnExecutor executor(3);
  EXPECT_THROW(parallel_for(9,
                            [](int64_t i) {
                              if (i == 5) throw std::runtime_error("five");
                            }),
               std::runtime_error);
  std::atomic<int> done{0};
  parallel_for(4, [&](int64_t) { parallel_for(4, [&](int64_t) { ++done; }); });
  EXPECT_EQ(done, 16);
  EXPECT_EQ(executor.runs, 2);
}

TEST(Executor, WantsBothFunctions) {
  const auto half = [] { set_executor({.threads = [] { return 2; }}); };
  EXPECT_TRUE(test::has(test::error_of(half), "`threads` and `run`")) << test::error_of(half);
}

// The library's own, behind somebody's policy.
TEST(Executor, OfTheLibraryIsOneToo) {
  const Threads two(2);
  const Executor own = own_executor();
  EXPECT_EQ(own.threads(), 2);
  std::vector<std::atomic<int>> times(100);
  own.run(100, [&](int64_t i) { ++times[static_cast<size_t>(i)]; });
  for (const auto& n : times) EXPECT_EQ(n, 1);
}

}  // namespace
}  // namespace fovea
