#include "tasks/speed.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/io/files.h"

namespace fovea::tasks {
namespace {

using Points = std::vector<std::pair<double, double>>;

std::string speed_line(int step, int per_second) {
  return "{\"step\":" + std::to_string(step) + ",\"per_second\":" + std::to_string(per_second) +
         ",\"unit\":\"tokens\"}\n";
}

// One that was killed goes on from its last checkpoint; the line it was writing is cut.
TEST(SpeedOfRun, AfterAKillTheLaterLinesCount) {
  const test::Folder folder;
  test::write_bytes(folder / "speed.jsonl", speed_line(10, 1) + speed_line(20, 2) +
                                                speed_line(30, 3) + speed_line(20, 5) +
                                                speed_line(40, 6) + "{\"step\":50,\"per_se");
  const Speed speed = speed_of(RunFolder(folder / ""));
  EXPECT_EQ(speed.unit, "tokens");
  EXPECT_EQ(speed.points, (Points{{10, 1}, {20, 5}, {40, 6}}));
  EXPECT_TRUE(speed_of(RunFolder(folder / "none")).points.empty());
}

TEST(SpeedOfRun, LinesBecomeRare) {
  const test::Folder folder;
  {
    SpeedLog log(RunFolder(folder / ""), false);
    for (int i = 1; i <= 100000; ++i) {
      log.add({.step = i, .units_per_second = 7, .unit = "tokens", .seconds = 0.5 * i});
    }
  }
  const size_t lines = speed_of(RunFolder(folder / "")).points.size();
  EXPECT_GT(lines, 300u);
  EXPECT_LT(lines, 3000u);
  {
    SpeedLog more(RunFolder(folder / ""), true);
    more.add({.step = 100001, .units_per_second = 0, .unit = "tokens", .seconds = 60000});
    more.add({.step = 100001, .units_per_second = 9, .unit = "tokens", .seconds = 60000});
  }
  EXPECT_EQ(speed_of(RunFolder(folder / "")).points.size(), lines + 1);
}

// Nobody reads the other end.
TEST(SpeedOfRun, APipeIsLeftAlone) {
  const test::Folder folder;
  const std::string pipe = folder / "speed.jsonl";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  ::alarm(60);  // instead of waiting forever
  SpeedLog log(RunFolder(folder / ""), true);
  ::alarm(0);
  log.add({.step = 1, .units_per_second = 7, .unit = "tokens", .seconds = 1});
  EXPECT_TRUE(speed_of(RunFolder(folder / "")).points.empty());
}

}  // namespace
}  // namespace fovea::tasks
