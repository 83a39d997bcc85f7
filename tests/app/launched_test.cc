#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "app/program.h"

// Started by a launcher, as its environment tells, with no MPI needed to see it.
namespace fovea::test {
namespace {

constexpr const char* kFirst =
    "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 FOVEA_MPI_MODULE=/nowhere.so";
constexpr const char* kSecond =
    "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 FOVEA_MPI_MODULE=/nowhere.so";

bool is_one_line(const std::string& text) {
  return std::ranges::count(text, '\n') == 1 && text.ends_with('\n');
}

TEST(LaunchedProgram, RefusesToTrainWithoutTheModule) {
  const Folder folder;
  for (const char* rank : {kFirst, kSecond}) {
    const Ran ran = run_program({"train", "image", "--out", folder / "run"}, rank);
    EXPECT_EQ(ran.code, 2);
    EXPECT_EQ(ran.out, "");
    EXPECT_TRUE(is_one_line(ran.err)) << ran.err;
    EXPECT_NE(ran.err.find("Open MPI as one of 2 processes, but the MPI module cannot be opened"),
              std::string::npos)
        << ran.err;
    EXPECT_EQ(ran.err.find("(rank 1)") != std::string::npos, rank == kSecond) << ran.err;
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

TEST(LaunchedProgram, LeavesOtherVerbsToOneProcess) {
  const Ran ran = run_program({"info"}, kFirst);
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(is_one_line(ran.err)) << ran.err;
  EXPECT_NE(ran.err.find("each would do all of `info`"), std::string::npos) << ran.err;
  EXPECT_EQ(run_program({"info"}, "OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0").code, 0);
}

TEST(Estimate, IsPrintedAndNothingIsWritten) {
  const Folder folder;
  const Ran ran = run_program({"train", "image", "--examples", "60", "--batches", "2", "--estimate",
                               "--bandwidth", "1", "--latency", "100", "--out", folder / "run"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const char* part :
       {"machines", "10000", "fails every", "63 h", "2 batches a step", "1 Gbit/s and 100 µs"}) {
    EXPECT_NE(ran.out.find(part), std::string::npos) << part << "\n" << ran.out;
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
  EXPECT_EQ(run_program({"train", "image", "--estimate", "--bandwidth", "0"}).code, 2);
}

}  // namespace
}  // namespace fovea::test
