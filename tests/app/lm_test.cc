#include <gtest/gtest.h>

#include <filesystem>

#include "app/program.h"

// Language models, as a user trains and asks them.
namespace fovea::test {
namespace {

const std::vector<std::string> kTinyLm = {
    "--examples", "100", "--query-depth", "16", "--heads",        "2",  "--blocks", "1",
    "--context",  "32",  "--steps",       "5",  "--batch-tokens", "256"};

std::vector<std::string> train_lm(const std::string& run,
                                  const std::vector<std::string>& more = {}) {
  return joined({{"train", "lm", "--out", run}, kTinyLm, more});
}

TEST(LmVerbs, TrainEvalPredict) {
  const Folder folder;
  const std::string run = folder / "run";
  const Ran trained = run_program(train_lm(run));
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_TRUE(std::filesystem::exists(run + "/text.vocab"));
  EXPECT_EQ(run_program({"eval", run}).code, 0);
  const auto write = [&](std::vector<std::string> more) {
    std::vector<std::string> all = {"predict", run};
    all.insert(all.end(), more.begin(), more.end());
    const Ran ran = run_program(all);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return ran.out;
  };
  const std::string text = write({"Ada has", "--length", "20", "--seed", "3"});
  EXPECT_TRUE(text.starts_with("Ada has")) << text;
  EXPECT_EQ(text, write({"Ada has", "--length", "20", "--seed", "3"}));
  EXPECT_NE(text, write({"Ada has", "--length", "20", "--seed", "4"}));
  EXPECT_FALSE(write({"", "--length", "5"}).empty());
  EXPECT_NE(write({"Ada", "--json", "--length", "5"}).find("\"predictions\""), std::string::npos);
  EXPECT_NE(write({"Ada", "--show", "--length", "5"}).find("last layer"), std::string::npos);
  EXPECT_FALSE(write({std::string(1000, 'a'), "--length", "5"}).empty());
  EXPECT_FALSE(write({"\xff\xfe", "--length", "5"}).empty());
}

TEST(LmVerbs, SayWhatIsWrongInOneLine) {
  const Folder folder;
  const std::string run = folder / "run";
  const auto refused = [&](std::vector<std::string> more, const std::string& why) {
    const Ran ran = run_program(train_lm(run, std::move(more)));
    EXPECT_EQ(ran.code, 2) << ran.err;
    EXPECT_NE(ran.err.find(why), std::string::npos) << ran.err;
    EXPECT_FALSE(std::filesystem::exists(run + "/config.json"));
  };
  refused({"--heads", "3"}, "3 heads do not divide a query depth of 16");
  refused({"--key-heads", "3"}, "key_heads must divide");
  refused({"--linear", "--positions", "t5"}, "take rotary");
  refused({"--query-depth", "65536", "--blocks", "512"}, "GB are free");
  refused({"--top-k", "3"}, "--top-k");
  refused({"--type", "bf16", "--device", "cpu"}, "--type bf16: the CPU does not compute in it");
  refused({"--valid-share", "0"}, "--valid-share must be above 0");
  refused({"--valid-share", "0", "--test-share", "0.2"}, "--valid-share must be above 0");
  refused({"/nowhere.txt"}, "nowhere.txt");
  write_bytes(folder / "own.txt", "a b\nb a\na a\nb b\na b\n");
  refused({folder / "own.txt", "--watch", "answered", "--valid-share", "0.3"}, "--watch answered");
}

TEST(LmVerbs, LearnedPositionsWithASmallContext) {
  const Folder folder;
  const std::string run = folder / "run";
  const Ran trained = run_program(train_lm(run, {"--positions", "learned", "--context", "16"}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_TRUE(std::filesystem::exists(run + "/report.html"));
  EXPECT_EQ(run_program({"report", run}).code, 0);
  EXPECT_EQ(run_program({"predict", run, "Ada has", "--show"}).code, 0);
  EXPECT_EQ(run_program({"explain", run, std::string(100, 'a')}).code, 0);
}

TEST(LmVerbs, LinearAttentionAndSubwords) {
  const Folder folder;
  const std::string run = folder / "run";
  const Ran trained = run_program(
      train_lm(run, {"--linear", "--unit", "subwords", "--vocab", "200", "--dropout", "0.3"}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_EQ(trained.out.find("nan"), std::string::npos) << trained.out;
  const Ran written = run_program({"predict", run, "Ada has", "--length", "60"});
  EXPECT_EQ(written.code, 0) << written.err;
  EXPECT_TRUE(written.out.starts_with("Ada has")) << written.out;
}

}  // namespace
}  // namespace fovea::test
