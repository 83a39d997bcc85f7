#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/process.h"
#include "app/program.h"
#include "tests/reduced.h"

namespace fovea::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

Ran rank(const Words& options) {
  Words words = {"rank"};
  words.insert(words.end(), options.begin(), options.end());
  return run_program(words);
}

Words tiny(const Words& more) {
  Words words = {"--blocks", "3", "--query-depth", "24", "--heads", "2", "--length", "10"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(Rank, PrintsTables) {
  const Ran ran = rank(tiny({}));
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const char* part : {"3 blocks of 24, 2 heads; 8 sequences of 10", "with layer norm",
                           "without layer norm", "attention alone", "+ skip + MLP", "layer 3"}) {
    EXPECT_NE(ran.out.find(part), std::string::npos) << part << "\n" << ran.out;
  }
  EXPECT_EQ(ran.out.find("layer 4"), std::string::npos);
}

TEST(Rank, PrintsJson) {
  const Ran ran = rank(tiny({"--json", "--sequences", "3", "--mlp-width", "5", "--seed", "9"}));
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json j = Json::parse(ran.out);
  EXPECT_EQ(j["model"], (Json{{"blocks", 3},
                              {"query-depth", 24},
                              {"heads", 2},
                              {"mlp-width", 5},
                              {"length", 10},
                              {"sequences", 3},
                              {"seed", 9}}));
  ASSERT_EQ(j["curves"].size(), 8u);
  for (const Json& curve : j["curves"]) EXPECT_EQ(curve["residual"].size(), 4u);
  EXPECT_EQ(rank(tiny({"--json", "--sequences", "3", "--mlp-width", "5", "--seed", "9"})).out,
            ran.out);
  EXPECT_NE(Json::parse(rank(tiny({"--json", "--sequences", "3", "--mlp-width", "5"})).out), j);
}

TEST(Rank, Draws) {
  const Folder folder;
  const Ran ran = rank(tiny({"--svg", folder / "a.svg", "--png", folder / "a.png"}));
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(read_bytes(folder / "a.svg").starts_with("<svg "));
  EXPECT_TRUE(read_bytes(folder / "a.png").starts_with("\x89PNG"));
  EXPECT_EQ(folder.files(), 2);
}

struct Case {
  std::string name;
  Words options;
  std::string says;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class BadRank : public testing::TestWithParam<Case> {};

// Sanitizers hold on to what was freed.
constexpr double kMost = reduced() ? 1000 : 100;

TEST_P(BadRank, IsRefusedInOneLineAndTakesNoMemory) {
  Words words = {"rank"};
  words.insert(words.end(), GetParam().options.begin(), GetParam().options.end());
  const Process::Ended ran = Process(words).wait();
  EXPECT_EQ(ran.code, 2) << ran.err;
  EXPECT_EQ(ran.out, "");
  EXPECT_TRUE(ran.err.starts_with("fovea rank: ")) << ran.err;
  EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
  EXPECT_NE(ran.err.find(GetParam().says), std::string::npos) << ran.err;
  EXPECT_LT(ran.peak_mb, kMost);
}

INSTANTIATE_TEST_SUITE_P(
    Options, BadRank,
    testing::ValuesIn(std::vector<Case>{
        {"HeadsThatDoNotDivide", {"--heads", "7"}, "7 heads do not divide a query depth of 768"},
        {"NoHeads", {"--heads", "0"}, "--heads must be in [1, 1024], found 0"},
        {"NoBlocks", {"--blocks", "0"}, "--blocks must be in [1, 512], found 0"},
        {"ManyBlocks", {"--blocks", "999999999999"}, "--blocks"},
        {"NegativeBlocks", {"--blocks", "-3"}, "--blocks"},
        {"WordyBlocks", {"--blocks", "few"}, "--blocks must be an integer, found few"},
        {"OneRow", {"--length", "1"}, "--length"},
        {"NoSequences", {"--sequences", "0"}, "--sequences"},
        {"NegativeSeed", {"--seed", "-1"}, "--seed"},
        {"HugeDepth", {"--query-depth", "65536", "--heads", "64"}, "GB are free; lower"},
        {"HugeMlp", {"--mlp-width", "1048576", "--query-depth", "49152"}, "GB are free; lower"},
        {"HugeInput", {"--length", "1048576", "--sequences", "65536"}, "GB are free; lower"},
        {"OverflowingDepth", {"--query-depth", "9223372036854775807"}, "--query-depth"},
        {"OtherEnding", {"--svg", "a.png"}, "--svg takes a FILE.svg, found a.png"},
        {"NoSuchFolder", {"--png", "/nowhere/a.png"}, "there is no folder /nowhere"},
        {"NoName", {"--svg", ""}, "empty"},
        {"NoRun", {"/nowhere"}, "/nowhere"},
        {"AFreshModelsOption", {"/nowhere", "--blocks", "3"}, "--blocks is of a fresh model"},
        {"UnknownOption", {"--layers", "3"}, "--layers"},
    }),
    [](const auto& bad) { return bad.param.name; });

TEST(Rank, OfARunWithoutATransformerIsRefused) {
  const Folder folder;
  const Ran trained =
      run_program({"train", "translate", "--out", folder / "run", "--examples", "120", "--hidden",
                   "8", "--embedding", "4", "--steps", "1", "--valid-sentences", "0"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Ran ran = rank({folder / "run"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_EQ(ran.out, "");
  EXPECT_NE(ran.err.find("rank needs a Transformer"), std::string::npos) << ran.err;
  EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
}

// Of tasks that have one: the encoder's sources, or windows of a text.
TEST(Rank, OfARunWithATransformer) {
  const Folder folder;
  const Words small = {"--blocks", "2", "--query-depth", "16", "--heads", "2", "--steps", "1"};
  const std::vector<Words> tasks = {
      {"lm", "--examples", "300", "--context", "24"},
      {"translate", "--model", "transformer", "--examples", "120", "--valid-sentences", "0"}};
  for (const Words& task : tasks) {
    const std::string run = folder / task[0];
    Words words = {"train"};
    words.insert(words.end(), task.begin(), task.end());
    words.insert(words.end(), small.begin(), small.end());
    words.insert(words.end(), {"--out", run});
    const Ran trained = run_program(words);
    ASSERT_EQ(trained.code, 0) << trained.err;
    const Ran ran = rank({run, "--sequences", "3", "--json"});
    ASSERT_EQ(ran.code, 0) << ran.err;
    const Json j = Json::parse(ran.out);
    EXPECT_EQ(j["model"], (Json{{"run", run}, {"sequences", 3}}));
    ASSERT_EQ(j["curves"].size(), 8u);
    for (const Json& curve : j["curves"]) {
      ASSERT_EQ(curve["residual"].size(), 3u);
      EXPECT_GT(curve["residual"][0], 0.1);
    }
    EXPECT_EQ(rank({run, "--heads", "4"}).code, 2);
    const Ran shown = rank({run});
    EXPECT_NE(shown.out.find("2 blocks of 16, 2 heads"), std::string::npos) << shown.out;
  }
}

}  // namespace
}  // namespace fovea::test
