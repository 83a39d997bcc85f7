#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/program.h"

// The program that was linked with largest/ trains, scores, uses, shows and reproduces with it, and
// the program without it has never heard of it.
namespace fovea::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const std::string& largest_run() {
  static const Folder folder;
  static const std::string run = [] {
    const std::string path = folder / "numbers";
    const Ran ran = run_program({"train", "largest", "--out", path});
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_TRUE(has(ran.out, "60 lists of the test set")) << ran.out;
    EXPECT_TRUE(has(ran.out, "in the second half")) << ran.out;
    return path;
  }();
  return run;
}

Ran without(const std::vector<std::string>& arguments) {
  const Folder folder;
  std::string command = test::program_without();
  for (const std::string& a : arguments) command += ' ' + shell_quoted(a);
  command += " >" + shell_quoted(folder / "out") + " 2>" + shell_quoted(folder / "err");
  const int status = std::system(command.c_str());
  return {WEXITSTATUS(status), read_bytes(folder / "out"), read_bytes(folder / "err")};
}

TEST(OneTask, Trains) {
  for (const char* file : {"config.json", "model.safetensors", "state.safetensors", "log.jsonl",
                           "results.json", "report.html"}) {
    EXPECT_TRUE(fs::exists(fs::path(largest_run()) / file)) << file;
  }
  const Json config = Json::parse(read_bytes(largest_run() + "/config.json"));
  EXPECT_EQ(config["task"], "largest");
  EXPECT_EQ(config["width"], 8);
  const Json results = Json::parse(read_bytes(largest_run() + "/results.json"));
  EXPECT_GE(results["test"]["scores"]["exact"], 80.0);
}

TEST(OneTask, GoesOnAndRepeats) {
  const Folder folder;
  const std::string run = folder / "run";
  ASSERT_EQ(run_program({"train", "largest", "--out", run, "--epochs", "3"}).code, 0);
  const Ran more = run_program({"train", "largest", "--out", run, "--resume", "--epochs", "6"});
  ASSERT_EQ(more.code, 0) << more.err;
  EXPECT_EQ(read_bytes(run + "/model.safetensors"),
            read_bytes(largest_run() + "/model.safetensors"));
  const Ran again =
      run_program({"train", "largest", "--config", largest_run(), "--out", folder / "again"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(read_bytes(folder / "again" / "log.jsonl"), read_bytes(largest_run() + "/log.jsonl"));
  const Ran other = run_program({"train", "translate", "--out", run, "--resume"});
  EXPECT_EQ(other.code, 2);
  EXPECT_TRUE(has(other.err, "is a run of task largest, not of translate")) << other.err;
}

TEST(OneTask, Evaluates) {
  const Ran own = run_program({"eval", largest_run(), "--json"});
  ASSERT_EQ(own.code, 0) << own.err;
  const Json results = Json::parse(read_bytes(largest_run() + "/results.json"));
  EXPECT_EQ(Json::parse(own.out), results["test"]);
  const Folder folder;
  write_bytes(folder / "more.txt", "1 99 2\n98 3 1\n");
  const Ran more = run_program({"eval", largest_run(), folder / "more.txt", "--json"});
  ASSERT_EQ(more.code, 0) << more.err;
  const Json j = Json::parse(more.out);
  EXPECT_EQ(j["lists"], 2);
  EXPECT_EQ(j["scores"]["exact"], 100.0);
  EXPECT_EQ(j["by_place"][0]["what"], "in the first half");
}

TEST(OneTask, Predicts) {
  const Ran ran = run_program({"predict", largest_run(), "--best", "2", "3 14 95"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.out, "\t95\n")) << ran.out;
  EXPECT_TRUE(has(ran.out, "\t14\n")) << ran.out;
  const Folder folder;
  const Ran drawn =
      run_program({"predict", largest_run(), "--weights", folder / "w.json", "--show", "3 14 95"});
  ASSERT_EQ(drawn.code, 0) << drawn.err;
  const Json ranking = Json::parse(read_bytes(folder / "w.json"));
  EXPECT_EQ(ranking["labels"], Json({"3", "14", "95"}));
  EXPECT_GT(ranking["weights"][2], 0.5);
  EXPECT_TRUE(has(drawn.out, "\n95           ██")) << drawn.out;
  for (const char* file : {"w.svg", "w.png"}) {
    ASSERT_EQ(run_program({"predict", largest_run(), "--weights", folder / file, "3 14 95"}).code,
              0);
  }
  EXPECT_TRUE(has(read_bytes(folder / "w.svg"), ">95</text>"));
  EXPECT_TRUE(read_bytes(folder / "w.png").starts_with("\x89PNG"));
  EXPECT_EQ(run_program({"predict", largest_run(), "--beam", "2", "3"}).code, 2);  // another's
  EXPECT_EQ(run_program({"predict", largest_run(), "three"}).code, 2);
}

TEST(OneTask, HasAPage) {
  const Folder folder;
  ASSERT_EQ(run_program({"report", largest_run(), "--out", folder / "page.html"}).code, 0);
  const std::string page = read_bytes(folder / "page.html");
  EXPECT_EQ(page, read_bytes(largest_run() + "/report.html"));
  EXPECT_TRUE(has(page, "The largest number: numbers"));
  EXPECT_TRUE(has(page, "What a number is worth"));  // its own section
  EXPECT_TRUE(has(page, "Scores by place"));
  EXPECT_TRUE(has(page, "a bar for each number, as long as it weighs"));
  EXPECT_TRUE(has(page, "<figure class=\"ranking\">"));
}

TEST(OneTask, IsReproducedAndComparedWithAnother) {
  const Folder folder;
  const std::string out = folder / "out";
  const Ran ran = run_program({"reproduce", "width2000", "--out", out});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.out, "width 8")) << ran.out;
  EXPECT_TRUE(has(ran.out, "3 models trained")) << ran.out;
  const Ran compared = run_program({"report", out + "/width 8-1", out + "/dates-1"});
  ASSERT_EQ(compared.code, 0) << compared.err;
  for (const char* cell : {"task", "largest", "translate", "right", "BLEU", "softmax"}) {
    EXPECT_TRUE(has(compared.out, cell)) << cell << "\n" << compared.out;
  }
}

TEST(OneTask, IsInTheHelp) {
  EXPECT_TRUE(has(run_program({"--help"}).out, "\n  largest "));
  EXPECT_TRUE(has(run_program({"--help"}).out, "width2000"));
  EXPECT_TRUE(has(run_program({"train"}).out, "\n  largest "));
  EXPECT_TRUE(has(run_program({"train", "largest", "--help"}).out, "--width N"));
  EXPECT_TRUE(has(run_program({"predict", "--help"}).out, "\n  largest      --best"));
  EXPECT_TRUE(has(run_program({"predict", largest_run(), "--help"}).out, "--best N"));
  EXPECT_TRUE(has(run_program({"train", "lragest"}).err, "did you mean \"largest\""));
}

TEST(OneTask, IsUnknownToTheProgramWithoutIt) {
  EXPECT_FALSE(has(without({"--help"}).out, "largest"));
  EXPECT_FALSE(has(without({"train"}).out, "largest"));
  EXPECT_EQ(without({"train", "largest"}).code, 2);
  EXPECT_EQ(without({"reproduce", "width2000"}).code, 2);
  for (const char* verb : {"eval", "predict", "report"}) {
    const Ran ran = without({verb, largest_run()});
    EXPECT_EQ(ran.code, 2);
    EXPECT_TRUE(has(ran.err, "of task \"largest\", which this program does not have")) << ran.err;
  }
}

}  // namespace
}  // namespace fovea::test
