#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/program.h"
#include "tests/errors.h"

// The verbs on images, as a user runs them.
namespace fovea::test {
namespace {

using Json = nlohmann::json;

void expect_pictures(const std::string& run, const std::string& input) {
  const Folder folder;
  for (const char* file : {"w.json", "w.svg", "w.png"}) {
    const Ran ran = run_program({"predict", run, input, "--weights", folder / file});
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_GT(std::filesystem::file_size(folder / file), 200u);
  }
  EXPECT_TRUE(Json::parse(read_bytes(folder / "w.json")).contains("looks"));
  EXPECT_TRUE(has(read_bytes(folder / "w.png").substr(0, 4), "PNG"));
}

void expect_explained(const std::string& run, const std::string& input) {
  const Folder folder;
  for (const char* file : {"e.svg", "e.png", "e.json", "e.html"}) {
    const Ran ran = run_program({"explain", run, input, "--by", "attention,gradcam-places",
                                 "--output", "1", "--json", "--picture", folder / file});
    ASSERT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(Json::parse(ran.out)["maps"][1]["looks"].size(), 1u);
    EXPECT_GT(std::filesystem::file_size(folder / file), 200u);
  }
  const Ran plain = run_program({"explain", run, input, "--output", "1"});
  ASSERT_EQ(plain.code, 0) << plain.err;
  EXPECT_TRUE(has(plain.out, "HiResCAM") && has(plain.out, "Kendall τ")) << plain.out;
  const Ran refused = run_program({"explain", run, input, "--by", "rollout"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_TRUE(has(refused.err, "layers of self-attention")) << refused.err;
}

// What a training says to try can be pasted into a shell.
void expect_runs_as_printed(const std::string& out) {
  const size_t at = out.find("Try     fovea ");
  ASSERT_NE(at, std::string::npos) << out;
  const size_t arguments = at + std::string("Try     fovea ").size();
  const std::string line = out.substr(arguments, out.find('\n', arguments) - arguments);
  EXPECT_EQ(std::system((shell_quoted(program()) + " " + line + " >/dev/null").c_str()), 0) << line;
}

TEST(CaptionVerbs, TrainEvalPredictAndReport) {
  const Folder folder;
  const std::string run = folder / "it's a run";
  const Ran train =
      run_program({"train", "caption", "--out", run, "--examples", "60", "--features", "8",
                   "--hidden", "8", "--embedding", "8", "--stride", "8", "--epochs", "1"});
  ASSERT_EQ(train.code, 0) << train.err;
  expect_runs_as_printed(train.out);
  const Ran eval = run_program({"eval", run, "--json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  EXPECT_TRUE(Json::parse(eval.out)["scores"].contains("bleu4"));
  expect_pictures(run, "scene:2");
  expect_explained(run, "scene:2");
  const Ran broken = run_program({"predict", run, run + "/config.json"});
  EXPECT_NE(broken.code, 0);
  EXPECT_TRUE(has(broken.err, "neither PNG nor JPEG")) << broken.err;
  EXPECT_EQ(run_program({"report", run}).code, 0);
  EXPECT_TRUE(has(run_program({"train", "caption", "--help"}).out, "Flickr"));
  EXPECT_TRUE(has(run_program({"reproduce", "--help"}).out, "xu2015"));
}

TEST(ImageVerbs, TrainEvalAndPredict) {
  const Folder folder;
  const std::string run = folder / "run";
  const Ran train = run_program({"train", "image", "--out", run, "--examples", "60", "--features",
                                 "6", "--stride", "8", "--epochs", "1"});
  ASSERT_EQ(train.code, 0) << train.err;
  const Ran eval = run_program({"eval", run, "--json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  EXPECT_TRUE(Json::parse(eval.out)["scores"].contains("accuracy"));
  expect_pictures(run, "pair:2");
  expect_explained(run, "pair:2");
  const Ran odd = run_program({"train", "image", "--out", folder / "odd", "--height", "50"});
  EXPECT_NE(odd.code, 0);
  EXPECT_TRUE(has(odd.err, "height is 50, not a multiple of the stride 4")) << odd.err;
}

}  // namespace
}  // namespace fovea::test
