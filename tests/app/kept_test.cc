// --weights, what an opened model's weights are kept as.
#include <gtest/gtest.h>

#include <filesystem>

#include "app/program.h"

namespace fovea {
namespace {

using test::Folder;
using test::Ran;
using test::run_program;

std::string model_folder() {
  return (std::filesystem::path(test::source_dir()) / "tests/checkpoints/golden/gpt2").string();
}

TEST(KeptWeights, EveryVerbThatOpensAModelHasThem) {
  const Folder folder;
  for (const char* kept : {"stored", "float32", "bf16", "int8"}) {
    const Ran ran = run_program({"predict", model_folder(), "the old ship", "--weights", kept});
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_FALSE(ran.out.empty());
  }
  for (const char* verb : {"predict", "eval", "explain", "faithful", "rank", "serve", "info"}) {
    const Ran ran = run_program({verb, model_folder(), "--weights", "int4"});
    EXPECT_EQ(ran.code, 2) << verb;
    EXPECT_NE(ran.err.find("stored, float32, bf16, int8"), std::string::npos) << ran.err;
  }
  const Ran info = run_program({"info", model_folder(), "--weights", "int8"});
  EXPECT_NE(info.out.find("kept as int8, by rows"), std::string::npos) << info.out;
}

TEST(KeptWeights, PredictWritesAFileByTheSameNameToo) {
  const Folder folder;
  const std::string file = (folder / "looked.json").string();
  const Ran ran = run_program(
      {"predict", model_folder(), "the old ship", "--weights", "bf16", "--weights", file});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(std::filesystem::exists(file));
}

}  // namespace
}  // namespace fovea
