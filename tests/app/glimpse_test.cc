#include <gtest/gtest.h>

#include <filesystem>

#include "app/program.h"

// Glimpses, as a user trains and asks them.
namespace fovea::test {
namespace {

const std::vector<std::string> kTinyGlimpses = {
    "--examples", "150", "--hidden", "8", "--parts",        "6", "--locator", "4",
    "--glimpses", "3",   "--steps",  "3", "--batch-images", "16"};

std::vector<std::string> train_glimpses(const std::string& run,
                                        const std::vector<std::string>& more = {}) {
  return joined({{"train", "glimpse", "--out", run}, kTinyGlimpses, more});
}

TEST(GlimpseVerbs, TrainEvalPredict) {
  const Folder folder;
  const std::string run = folder / "run", picture = folder / "way.svg";
  const Ran trained = run_program(train_glimpses(run, {"--variant", "cluttered"}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_TRUE(std::filesystem::exists(run + "/classes.json"));
  EXPECT_TRUE(std::filesystem::exists(run + "/report.html"));
  const Ran scored = run_program({"eval", run, "--passes", "3"});
  EXPECT_EQ(scored.code, 0) << scored.err;
  EXPECT_NE(scored.out.find("glimpses"), std::string::npos) << scored.out;
  const Ran measured = run_program({"faithful", run});
  EXPECT_EQ(measured.code, 2);
  EXPECT_NE(measured.err.find("its task has no such measure"), std::string::npos) << measured.err;
  const Ran shown = run_program({"predict", run, "--show", "test:0"});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_NE(shown.out.find(" 3  at"), std::string::npos) << shown.out;
  const Ran drawn = run_program({"predict", run, "--weights", picture, "test:0", "test:1"});
  EXPECT_EQ(drawn.code, 0) << drawn.err;
  EXPECT_NE(read_bytes(picture).find("<svg"), std::string::npos);
}

TEST(GlimpseVerbs, SayWhatIsWrongInOneLine) {
  const Folder folder;
  const std::string run = folder / "run";
  const auto refused = [&](std::vector<std::string> more, const std::string& why) {
    const Ran ran = run_program(train_glimpses(run, std::move(more)));
    EXPECT_EQ(ran.code, 2) << ran.err;
    EXPECT_NE(ran.err.find(why), std::string::npos) << ran.err;
    EXPECT_FALSE(std::filesystem::exists(run + "/config.json"));
  };
  refused({"/nowhere.csv"}, "nowhere.csv");
  refused({"--canvas", "20", "--variant", "translated"}, "does not fit a canvas of 20");
  refused({"--model", "soft", "--weighting", "sample"}, "recurrent");
  refused({"--hidden", "16384", "--model", "dense", "--canvas", "1024", "--variant", "translated"},
          "GB are free");
  const Ran ran = run_program(train_glimpses(run, {"--model", "dense"}));
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Ran blind = run_program({"predict", run, "--show", "test:0"});
  EXPECT_EQ(blind.code, 2);
  EXPECT_NE(blind.err.find("no attention to show"), std::string::npos) << blind.err;
  EXPECT_EQ(run_program({"predict", run, "test:9999"}).code, 2);
}

}  // namespace
}  // namespace fovea::test
