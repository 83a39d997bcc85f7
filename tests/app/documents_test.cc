#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/program.h"
#include "tests/errors.h"

// The verbs on documents, as a user runs them.
namespace fovea::test {
namespace {

using Json = nlohmann::json;

const std::vector<std::string> kTinyClassifier = {"--examples",  "300", "--hidden", "8",
                                                  "--embedding", "8",   "--epochs", "2"};

std::vector<std::string> train_classifier(const std::string& run,
                                          const std::vector<std::string>& more) {
  return joined({{"train", "documents", "--out", run}, kTinyClassifier, more});
}

const std::string& tiny_classifier() {
  static const Folder folder;
  static const std::string run = [] {
    const std::string path = folder / "run";
    const Ran ran = run_program(train_classifier(path, {}));
    EXPECT_EQ(ran.code, 0) << ran.err;
    return path;
  }();
  return run;
}

TEST(DocumentsVerbs, EvalPredictAndReport) {
  const Ran eval = run_program({"eval", tiny_classifier(), "--json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  const Json j = Json::parse(eval.out);
  EXPECT_EQ(j["documents"], 30);
  EXPECT_EQ(j["by_confusion"].size(), 2u);
  EXPECT_TRUE(j["by_class"][0]["scores"].contains("f1"));
  const Ran predict =
      run_program({"predict", tiny_classifier(), "--show", "The film is dull. It rained."});
  ASSERT_EQ(predict.code, 0) << predict.err;
  EXPECT_TRUE(has(predict.out, "tive\n")) << predict.out;
  EXPECT_TRUE(has(predict.out, "It ") || has(predict.out, "*It")) << predict.out;
  const Folder folder;
  for (const char* file : {"w.json", "w.svg", "w.png"}) {
    const Ran ran =
        run_program({"predict", tiny_classifier(), "One. Two.", "--weights", folder / file});
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_GT(std::filesystem::file_size(folder / file), 50u);
  }
  const Ran no_class =
      run_program({"explain", tiny_classifier(), "It rained.", "--output", "nope"});
  EXPECT_EQ(no_class.code, 2);
  EXPECT_TRUE(has(no_class.err, "must be one of negative, positive, or in 1 … 2, found nope"))
      << no_class.err;
  EXPECT_EQ(run_program({"report", tiny_classifier()}).code, 0);
  EXPECT_TRUE(has(run_program({"train", "documents", "--help"}).out, "a folder for each class"));
}

TEST(DocumentsVerbs, SayWhatIsCutAndDropped) {
  const Folder folder;
  std::string tsv;
  for (int i = 0; i < 40; ++i) {
    tsv += i % 2 == 0 ? "a\tone two three four five six. Yes. No.\n" : "b\tshort one.\n";
    tsv.insert(tsv.size() - 1, " " + std::to_string(i));
  }
  write_bytes(folder / "d.tsv", tsv);
  const Ran ran =
      run_program({"train", "documents", folder / "d.tsv", "--out", folder / "r", "--epochs", "1",
                   "--longest-sentence", "4", "--most-sentences", "3", "--min-count", "1"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const std::string said = ran.out + ran.err;
  EXPECT_TRUE(has(said, "of more than 4 words are read in pieces")) << said;
  EXPECT_TRUE(has(said, "have more than 3 sentences: what follows")) << said;
}

// Whatever a file calls its classes: nothing of it steers a terminal.
TEST(DocumentsVerbs, PrintNoEscapes) {
  const Folder folder;
  std::string tsv;
  for (int i = 0; i < 40; ++i) {
    tsv += i % 2 == 0 ? "\x1b[2Ja\u009b31m\tgood one " : "b\x07\x1b]0;title\x07\tbad two ";
    tsv += std::to_string(i) + "\n";
  }
  write_bytes(folder / "d.tsv", tsv);
  const std::string run = folder / "r";
  const Ran trained = run_program({"train", "documents", folder / "d.tsv", "--out", run, "--epochs",
                                   "1", "--min-count", "1", "--hidden", "4", "--embedding", "4"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  std::string all = trained.out + trained.err;
  for (const Ran& ran :
       {run_program({"eval", run}), run_program({"predict", run, "good one", "--n-best", "2"}),
        run_program({"predict", run, "--show", "good one"}), run_program({"report", run, run}),
        run_program({"explain", run, "good one two three", "--by", "attention"}),
        run_program({"faithful", run, "--inputs", "2", "--steps", "2"})}) {
    EXPECT_EQ(ran.code, 0) << ran.err;
    all += ran.out + ran.err;
  }
  EXPECT_TRUE(has(all, "[2Ja31m")) << all;
  for (const char* control : {"\x1b", "\x07", "\u009b"}) EXPECT_FALSE(has(all, control)) << all;
}

TEST(DocumentsVerbs, HelpSaysWhatOwnDataChange) {
  const std::string help = run_program({"train", "documents", "--help"}).out;
  EXPECT_TRUE(has(help, "[1; own data: 3]")) << help;  // --min-count
  EXPECT_TRUE(has(help, "[0.01; own data: 0.003]"));   // --rate
  EXPECT_TRUE(has(help, "[best; own data: last]"));    // --keep
  EXPECT_FALSE(has(help, "own data: own"));            // DATA itself
}

TEST(DocumentsVerbs, ExplainBadInputInOneLine) {
  const Folder folder;
  write_bytes(folder / "one.tsv", "a\tx\na\ty\n");
  write_bytes(folder / "open.csv", "label,text\na,\"x\n");
  write_bytes(folder / "columns.csv", "class,body\na,x\n");
  write_bytes(folder / "bad.jsonl", "{\"label\": \"a\"}\n");
  write_bytes(folder / "empty.tsv", "");
  write_bytes(folder / "nul.tsv", std::string("a\tx\0y\n", 6));
  write_bytes(folder / "huge.tsv", "a\t" + std::string(2'000'000, 'x') + "\n");
  std::filesystem::create_directory(folder / "none");
  for (const char* name : {"one.tsv", "open.csv", "columns.csv", "bad.jsonl", "empty.tsv",
                           "nul.tsv", "huge.tsv", "none", "absent.tsv"}) {
    const Ran ran = run_program({"train", "documents", folder / name, "--out", folder / "r"});
    EXPECT_EQ(ran.code, 2) << name;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_TRUE(has(ran.err, "fovea train: ")) << ran.err;
    EXPECT_FALSE(std::filesystem::exists(folder / "r")) << name;
  }
  for (const std::vector<std::string>& options : {std::vector<std::string>{"--model", "falt"},
                                                  {"--fold", "3"},
                                                  {"--folds", "1"},
                                                  {"--longest-sentence", "0"},
                                                  {"--word-dropout", "nan"},
                                                  {"--score", "dott"}}) {
    std::vector<std::string> all = train_classifier(folder / "r", options);
    const Ran ran = run_program(all);
    EXPECT_EQ(ran.code, 2) << options[0] << ran.err;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
  }
}

}  // namespace
}  // namespace fovea::test
