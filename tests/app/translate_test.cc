#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/program.h"
#include "tests/errors.h"

// The verbs train, eval, predict and report, as a user runs them, on a run small enough for a test.
namespace fovea::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const std::vector<std::string> kTinyTranslator = {"--examples",  "200",  "--hidden",          "12",
                                                  "--embedding", "8",    "--batch-tokens",    "512",
                                                  "--rate",      "0.01", "--valid-sentences", "5"};

std::vector<std::string> train_translator(const std::string& run,
                                          const std::vector<std::string>& more) {
  return joined({{"train", "translate", "--out", run}, kTinyTranslator, more});
}

int lines_of(const std::string& text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

std::string last_line(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

// One run for all tests that only read it.
const std::string& tiny_translator() {
  static const Folder folder;
  static const std::string run = [] {
    const std::string path = folder / "run";
    const Ran ran = run_program(train_translator(path, {"--epochs", "2"}));
    EXPECT_EQ(ran.code, 0) << ran.err;
    return path;
  }();
  return run;
}

TEST(TrainVerb, WritesARunFolder) {
  for (const char* file : {"config.json", "source.vocab", "target.vocab", "model.safetensors",
                           "state.safetensors", "log.jsonl", "results.json", "report.html"}) {
    EXPECT_TRUE(fs::exists(fs::path(tiny_translator()) / file)) << file;
  }
  const Json config = Json::parse(read_bytes(tiny_translator() + "/config.json"));
  EXPECT_EQ(config["task"], "translate");
  EXPECT_EQ(config["hidden"], 12);
}

TEST(TrainVerb, RepeatsARunFromItsConfig) {
  const Folder folder;
  const Ran ran =
      run_program({"train", "translate", "--config", tiny_translator(), "--out", folder / "again"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const std::string file : {"config.json", "model.safetensors", "log.jsonl", "source.vocab"}) {
    EXPECT_EQ(read_bytes(tiny_translator() + "/" + file), read_bytes(folder / "again" / file))
        << file;
  }
}

TEST(TrainVerb, TheLastOfAnOptionCounts) {
  const Folder folder;
  const Ran ran = run_program(
      train_translator(folder / "run", {"--steps", "1", "--hidden", "7", "--dropout", "0.4"}));
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json config = Json::parse(read_bytes(folder / "run" / "config.json"));
  EXPECT_EQ(config["hidden"], 7);
  EXPECT_EQ(config["embedding"], 8);
}

TEST(TrainVerb, KeepsARunUnlessTold) {
  const Ran ran = run_program(train_translator(tiny_translator(), {}));
  EXPECT_EQ(ran.code, 2);
  EXPECT_EQ(lines_of(ran.err), 1) << ran.err;
  EXPECT_NE(ran.err.find("--resume"), std::string::npos) << ran.err;
}

TEST(TrainVerb, ForceReplacesARun) {
  const Folder folder;
  const std::string run = folder / "run";
  ASSERT_EQ(run_program(train_translator(run, {"--steps", "3", "--hidden", "7"})).code, 0);
  write_bytes(run + "/.model.safetensors.1.0.tmp", "of a save that was killed");
  const Ran ran = run_program(train_translator(run, {"--steps", "2", "--force"}));
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(Json::parse(read_bytes(run + "/config.json"))["hidden"], 12);
  EXPECT_EQ(Json::parse(read_bytes(run + "/results.json"))["steps"], 2);
  EXPECT_FALSE(fs::exists(run + "/.model.safetensors.1.0.tmp"));
  // What is wrong is found before anything is removed.
  const Ran wrong = run_program(train_translator(run, {"--force", "--layers", "0"}));
  EXPECT_EQ(wrong.code, 2) << wrong.err;
  EXPECT_EQ(Json::parse(read_bytes(run + "/results.json"))["steps"], 2);
}

TEST(TrainVerb, ListsTasksAndAnswersAMisspeltOne) {
  const Ran alone = run_program({"train"});
  EXPECT_EQ(alone.code, 0);
  EXPECT_TRUE(has(alone.out, "Usage: fovea train")) << alone.out;
  EXPECT_TRUE(has(alone.out, "\n  translate   ")) << alone.out;
  const Ran misspelt = run_program({"train", "tranlsate", "--hidden", "8"});
  EXPECT_EQ(misspelt.code, 2);
  EXPECT_EQ(misspelt.err,
            "fovea train: there is no task \"tranlsate\"; did you mean \"translate\"?\n");
  const Ran option = run_program({"train", "translate", "--hiden", "8"});
  EXPECT_EQ(option.code, 2);
  EXPECT_TRUE(has(option.err, "--hiden")) << option.err;
  EXPECT_TRUE(has(run_program({"--help"}).out, "\n  translate   "));
}

TEST(TrainVerb, ExplainsBadInputInOneLine) {
  const Folder folder;
  write_bytes(folder / "pairs.tsv", "one\teins\ntwo zwei\n");
  const std::vector<std::vector<std::string>> bad = {
      {"train", "translate", folder / "pairs.tsv", "--out", folder / "r"},
      {"train", "translate", folder / "none.tsv", "--out", folder / "r"},
      {"train", "translate", "--hidden", "0", "--out", folder / "r"},
      {"train", "translate", "--hidden", "1e3", "--out", folder / "r"},
      {"train", "translate", "--score", "dott", "--out", folder / "r"},
      {"train", "translate", "--src", folder / "pairs.tsv", "--out", folder / "r"},
      {"train", "translate", "--resume", "--out", folder / "r"},
      {"train", "juggling"},
      {"predict", folder / "none", "x"},
      {"eval", folder / "none"},
      {"report", folder / "none"},
      {"reproduce", "nobody1999"},
      {"predict", folder / "none", "--beam", "3", "x"},
      {"predict", tiny_translator(), "--beam", "1025", "x"},
      {"predict", tiny_translator(), "--bim", "3", "x"},
      {"eval", tiny_translator(), "--n-best", "3"},
      {"eval", tiny_translator(), "--beam", "0"},
      {"train", "--hidden", "8"},
      {"train", "translate", "--resume", "--out", tiny_translator(), "--hidden", "8"},
  };
  for (const auto& arguments : bad) {
    const Ran ran = run_program(arguments);
    EXPECT_EQ(ran.code, 2) << ran.err;
    EXPECT_EQ(lines_of(ran.err), 1) << ran.err;
  }
  EXPECT_NE(run_program(bad[0]).err.find("pairs.tsv:2"), std::string::npos);
}

TEST(TrainVerb, SaysWhatKeepsPairsFromBeingHeldOut) {
  const Folder folder;
  std::string same, others;
  for (int i = 0; i < 20; ++i) {
    same += "one\teins\n";
    others += fmt::format("n {}\tm {}\n", i, i);
  }
  write_bytes(folder / "same.tsv", same);
  write_bytes(folder / "others.tsv", others);
  const auto said = [&](const std::string& file, std::vector<std::string> more) {
    more.insert(more.begin(), {"train", "translate", folder / file, "--out", folder / "r"});
    const Ran ran = run_program(more);
    EXPECT_EQ(ran.code, 2) << ran.err;
    return ran.err;
  };
  EXPECT_TRUE(has(said("same.tsv", {}), "all 20 pairs have one source"));
  EXPECT_FALSE(has(said("same.tsv", {}), "share"));
  EXPECT_TRUE(has(said("others.tsv", {"--valid-share", "0"}), "--valid-share is 0"));
}

TEST(TrainVerb, NamesOptionsOfAnotherModel) {
  const Folder folder;
  const auto said = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"train", "translate", "--out", folder / "r", "--force"});
    more.insert(more.end(), kTinyTranslator.begin(), kTinyTranslator.end());
    const Ran ran = run_program(more);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return ran.out + ran.err;
  };
  const std::string line =
      "--heads, --linear: of a Transformer; --model recurrent does not use them";
  EXPECT_TRUE(has(said({"--linear", "--heads", "2"}), line));
  EXPECT_FALSE(has(said({}), "of a Transformer"));
}

// A script's variable that is not set must not mean the built-in data, or the run's own.
TEST(TrainVerb, AnEmptyNameIsNoName) {
  const Folder folder;
  const std::vector<std::vector<std::string>> bad = {
      train_translator(folder / "r", {"--steps", "1", ""}),
      train_translator(folder / "r", {"--steps", "1", "--tsv", ""}),
      train_translator(folder / "r", {"--steps", "1", "--config", ""}),
      {"eval", tiny_translator(), ""},
      {"predict", tiny_translator(), "--weights", "", "3 May 2021"},
      {"reproduce", "bahdanau2015", "--data", "", "--effort", "0.01", "--out", folder / "r"}};
  for (const auto& arguments : bad) {
    const Ran ran = run_program(arguments);
    EXPECT_EQ(ran.code, 2) << ran.err;
    EXPECT_TRUE(has(ran.err, "empty")) << ran.err;
  }
  EXPECT_FALSE(fs::exists(folder / "r"));
}

TEST(TrainVerb, NumbersThatAreNoneAreNamed) {
  const Folder folder;
  const auto says = [](const std::vector<std::string>& arguments, const std::string& option) {
    const Ran ran = run_program(arguments);
    EXPECT_EQ(ran.code, 2) << ran.err;
    EXPECT_TRUE(has(ran.err, option)) << ran.err;
    EXPECT_EQ(lines_of(ran.err), 1) << ran.err;
  };
  for (const char* number : {"nan", "inf", "-1", "1e99"}) {
    says({"predict", tiny_translator(), "--length-power", number, "3 May 2021"}, "--length-power");
    says({"eval", tiny_translator(), "--length-power", number}, "--length-power");
    says({"reproduce", "luong2015", "--effort", number, "--out", folder / "r"}, "--effort");
    says({"reproduce", "luong2015", "--seeds", number, "--out", folder / "r"}, "--seeds");
  }
  for (const char* side : {"src", "tgt"}) {
    const std::string option = fmt::format("--{}-vocab", side);
    says(train_translator(folder / "r", {fmt::format("--{}-unit", side), "subwords", option, "5"}),
         option + " must be at least 6 for subwords, found 5");
  }
  EXPECT_FALSE(fs::exists(folder / "r"));
}

TEST(TrainVerb, SaysWhenTheDiskIsFull) {
  const Folder folder;
  const std::string run = folder / "run";
  ASSERT_EQ(run_program(train_translator(run, {"--steps", "20", "--validate-every", "10"})).code,
            0);
  const std::string before = read_bytes(run + "/state.safetensors");
  const Ran ran = run_program({"train", "translate", "--out", run, "--resume", "--steps", "40"},
                              "trap '' XFSZ; ulimit -f 8;");
  EXPECT_EQ(ran.code, 2) << ran.err;
  const std::string last = last_line(ran.err);
  EXPECT_TRUE(last.starts_with("fovea train: cannot write " + run + "/state.safetensors: "))
      << ran.err;
  EXPECT_NE(last.find("File too large"), std::string::npos) << ran.err;
  EXPECT_EQ(read_bytes(run + "/state.safetensors"), before);
}

TEST(PredictVerb, ReadsArgumentsFilesAndStandardInput) {
  const Folder folder;
  write_bytes(folder / "in.txt", "3 May 2021\r\nle 4 mai 2022\n");
  const Ran by_argument =
      run_program({"predict", tiny_translator(), "3 May 2021", "le 4 mai 2022"});
  const Ran by_file = run_program({"predict", tiny_translator(), "--file", folder / "in.txt"});
  const Ran by_pipe =
      run_program({"predict", tiny_translator()}, "cat " + shell_quoted(folder / "in.txt") + " |");
  ASSERT_EQ(by_argument.code, 0) << by_argument.err;
  EXPECT_EQ(lines_of(by_argument.out), 2);
  EXPECT_EQ(by_argument.out, by_file.out);
  EXPECT_EQ(by_argument.out, by_pipe.out);
}

// The second line is written when the answer to the first has come.
TEST(PredictVerb, AnswersALineBeforeTheNextIsWritten) {
  const Folder folder;
  const std::string answers = folder / "answers";
  write_bytes(folder / "ask", R"(echo '3 May 2021'
for i in $(seq 600); do
  [ -s "$1" ] && echo 'le 4 mai 2022' && exit
  sleep 0.1
done
)");
  const std::string ask = shell_quoted(folder / "ask"), to = shell_quoted(answers);
  const std::string command = fmt::format("sh {} {} | {} predict {} > {}", ask, to,
                                          shell_quoted(program()), tiny_translator(), to);
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(lines_of(read_bytes(answers)), 2);
}

TEST(PredictVerb, InputsAreNamedInOnePlace) {
  const Ran ran = run_program({"predict", tiny_translator(), "3 May 2021", "--file", "in.txt"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(has(ran.err, "take one of them")) << ran.err;
}

TEST(PredictVerb, GivesNBestWithScoresAndJson) {
  const Ran ran =
      run_program({"predict", tiny_translator(), "--n-best", "3", "--json", "3 May 2021"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json j = Json::parse(ran.out);
  ASSERT_EQ(j["predictions"].size(), 3u);
  EXPECT_GE(j["predictions"][0]["score"], j["predictions"][1]["score"]);
  EXPECT_EQ(j["input"], "3 May 2021");
}

TEST(PredictVerb, WritesAndDrawsWhereItLooked) {
  const Folder folder;
  for (const char* name : {"w.json", "w.svg", "w.png"}) {
    const Ran ran =
        run_program({"predict", tiny_translator(), "--weights", folder / name, "3 May 2021"});
    ASSERT_EQ(ran.code, 0) << ran.err;
    EXPECT_GT(fs::file_size(folder / name), 100u);
  }
  const Json map = Json::parse(read_bytes(folder / "w.json"));
  const Json& one = map.is_array() ? map[0] : map;
  EXPECT_EQ(one["columns"].size(), 11u);  // ten characters and the end
  double total = 0;
  for (const double w : one["weights"][0]) total += w;
  EXPECT_NEAR(total, 1.0, 1e-4);
  const Ran drawn = run_program({"predict", tiny_translator(), "--show", "3 May 2021"});
  EXPECT_NE(drawn.out.find("M a y"), std::string::npos) << drawn.out;
  EXPECT_EQ(drawn.out.find('\x1b'), std::string::npos);
  EXPECT_EQ(run_program({"predict", tiny_translator(), "--weights", folder / "w.gif", "x"}).code,
            2);
}

TEST(PredictVerb, SaysWhatCannotBeWrittenBeforeItPredicts) {
  const Folder folder;
  for (const char* name : {"w.txt", "w", "none/w.svg"}) {
    const Ran ran =
        run_program({"predict", tiny_translator(), "--weights", folder / name, "3 May 2021"});
    EXPECT_EQ(ran.code, 2) << name;
    EXPECT_EQ(ran.out, "") << name;
    EXPECT_EQ(lines_of(ran.err), 1) << ran.err;
  }
  EXPECT_EQ(folder.files(), 0);
}

TEST(PredictVerb, LinesHaveALimitWhereverTheyComeFrom) {
  const Folder folder;
  write_bytes(folder / "in.txt", "3 May 2021\n" + std::string(1'000'001, 'x') + "\n");
  const std::string pipe = "cat " + shell_quoted(folder / "in.txt") + " |";
  const std::vector<Ran> all = {
      run_program({"predict", tiny_translator(), "--file", folder / "in.txt"}),
      run_program({"predict", tiny_translator()}, pipe),
      run_program({"predict", tiny_translator(), "--file", "-"}, pipe)};
  for (const Ran& ran : all) {
    EXPECT_EQ(ran.code, 2) << ran.err;
    EXPECT_TRUE(has(ran.err, ":2: a line of more than 1000000 bytes")) << ran.err;
  }
}

TEST(PredictVerb, SurvivesOddInput) {
  for (const std::string& odd : {std::string(), std::string("\xff\xfe"), std::string(3000, 'x'),
                                 std::string("日本語 🙂")}) {
    const Ran ran = run_program({"predict", tiny_translator(), "--longest", "20", odd});
    EXPECT_EQ(ran.code, 0) << ran.err;
  }
}

TEST(EvalVerb, ScoresHeldOutAndOtherPairs) {
  const Ran own = run_program({"eval", tiny_translator(), "--json"});
  ASSERT_EQ(own.code, 0) << own.err;
  const Json results = Json::parse(read_bytes(tiny_translator() + "/results.json"));
  EXPECT_EQ(Json::parse(own.out)["scores"], results["test"]["scores"]);
  const Folder folder;
  write_bytes(folder / "more.tsv", "3 May 2021\t2021-05-03\n3 May 2021\t2021-05-04\n");
  const Ran more = run_program({"eval", tiny_translator(), folder / "more.tsv", "--json"});
  ASSERT_EQ(more.code, 0) << more.err;
  EXPECT_EQ(Json::parse(more.out)["sentences"], 1);
}

TEST(RunVerbs, KnowTheOptionsOfARunsTask) {
  for (const std::string verb : {"predict", "eval"}) {
    const Ran alone = run_program({verb, "--help"});
    EXPECT_EQ(alone.code, 0);
    EXPECT_TRUE(has(alone.out, "\n  translate    --beam")) << alone.out;
    const Ran of_run = run_program({verb, tiny_translator(), "--help"});
    EXPECT_EQ(of_run.code, 0);
    EXPECT_TRUE(has(of_run.out, "--beam N ")) << of_run.out;
    EXPECT_EQ(has(of_run.out, "--n-best N "), verb == "predict") << of_run.out;
  }
  // Before the run, too.
  const Ran before = run_program({"predict", "--n-best", "2", tiny_translator(), "3 May 2021"});
  EXPECT_EQ(before.code, 0) << before.err;
  EXPECT_EQ(lines_of(before.out), 2) << before.out;
}

TEST(ReproduceVerb, TrainsAndGoesOnWhereItWas) {
  const Folder folder;
  std::string pairs;
  for (int i = 0; i < 80; ++i) pairs += fmt::format("{0} red apples\t{0} pommes\n", i);
  write_bytes(folder / "pairs.tsv", pairs);
  const std::string out = folder / "out";
  const std::vector<std::string> command = {
      "reproduce", "bahdanau2015", "--data", folder / "pairs.tsv", "--out",
      out,         "--seeds",      "1",      "--effort",           "0.1"};
  const Ran first = run_program(command);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_TRUE(has(first.out, "with attention")) << first.out;
  EXPECT_TRUE(has(first.out, "the paper, WMT'14")) << first.out;
  EXPECT_TRUE(has(first.out, "2 models trained in ")) << first.out;
  for (const char* file :
       {"report.html", "results.json", "fixed-1/results.json", "attention-1/report.html"}) {
    EXPECT_TRUE(fs::exists(out + "/" + file)) << file;
  }
  const Json trials = Json::parse(read_bytes(out + "/results.json"))["trials"];
  ASSERT_EQ(trials.size(), 2u);
  EXPECT_EQ(trials[0]["name"], "fixed-1");
  EXPECT_EQ(Json::parse(read_bytes(out + "/fixed-1/config.json"))["epochs"], 1);  // a tenth of ten

  const auto trained = fs::last_write_time(out + "/fixed-1/model.safetensors");
  const Ran again = run_program(command);
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.out, first.out);
  EXPECT_EQ(fs::last_write_time(out + "/fixed-1/model.safetensors"), trained);
  const Ran compared = run_program({"report", out + "/fixed-1", out + "/attention-1"});
  EXPECT_TRUE(has(compared.out, "none, a fixed context")) << compared.out;
}

std::vector<std::string> demo_command(const std::string& run, const std::string& steps) {
  return joined({{"demo", "--out", run, "--steps", steps}, kTinyTranslator});
}

TEST(DemoVerb, TrainsAndShowsWhereItLooked) {
  const Folder folder;
  const std::string run = folder / "run";
  const Ran ran = run_program(demo_command(run, "3"));
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.out, "reads a date as people write it")) << ran.out;
  EXPECT_TRUE(has(ran.out, "expected ")) << ran.out;  // three steps teach it nothing …
  EXPECT_TRUE(has(ran.out, "██ = ")) << ran.out;      // … but where it looks is drawn
  EXPECT_TRUE(has(ran.out, "3 steps in ")) << ran.out;
  EXPECT_TRUE(has(ran.out, "fovea predict " + run + " --show ")) << ran.out;
  EXPECT_TRUE(has(ran.out, "fovea reproduce bahdanau2015")) << ran.out;
  EXPECT_TRUE(fs::exists(run + "/report.html"));
  const Ran kept = run_program(demo_command(run, "2"));
  EXPECT_EQ(kept.code, 2);
  EXPECT_TRUE(has(kept.err, "--force")) << kept.err;
  EXPECT_EQ(Json::parse(read_bytes(run + "/results.json"))["steps"], 3);
  std::vector<std::string> replacing = demo_command(run, "2");
  replacing.emplace_back("--force");
  EXPECT_EQ(run_program(replacing).code, 0);
  EXPECT_EQ(Json::parse(read_bytes(run + "/results.json"))["steps"], 2);
}

TEST(ReportVerb, RefusesDamagedResults) {
  const Folder folder;
  const std::string run = folder / "run";
  fs::copy(tiny_translator(), run);
  for (const char* damaged :
       {"", "3", "{}", "[]", R"({"seconds": []})", R"({"seconds": 1, "test": 3})",
        R"({"seconds": 1, "test": {"sentences": {}, "scores": {"loss": 1}}})",
        R"({"seconds": 1, "test": {"sentences": 1, "scores": {"loss": "x"}}})"}) {
    write_bytes(run + "/results.json", damaged);
    for (const Ran& ran :
         {run_program({"report", run}), run_program({"report", tiny_translator(), run})}) {
      EXPECT_EQ(ran.code, 2) << damaged;
      EXPECT_TRUE(has(ran.err, "results.json")) << ran.err;
      EXPECT_EQ(lines_of(ran.err), 1) << ran.err;
    }
  }
}

TEST(ReportVerb, WritesTheSamePageAgainAndCompares) {
  const Folder folder;
  ASSERT_EQ(run_program({"report", tiny_translator(), "--out", folder / "page.html"}).code, 0);
  EXPECT_EQ(read_bytes(folder / "page.html"), read_bytes(tiny_translator() + "/report.html"));
  const Ran ran = run_program(
      {"report", tiny_translator(), tiny_translator(), "--out", folder / "compared.html"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("global additive, softmax"), std::string::npos) << ran.out;
}

}  // namespace
}  // namespace fovea::test
