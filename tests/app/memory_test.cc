#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "app/process.h"
#include "tests/reduced.h"

// What the program takes of the machine's memory, by the largest resident set of its process.
namespace fovea::test {
namespace {

namespace fs = std::filesystem;

Process::Ended measure(const std::vector<std::string>& arguments) {
  return Process(arguments).wait();
}

// Sanitizers hold on to what was freed.
constexpr double kMore = reduced() ? 1000 : 30;

// A model of words that knows next to nothing, so that it writes as long as it may.
const std::string& wordy_run() {
  static const Folder folder;
  static const std::string run = [] {
    const std::string path = folder / "run";
    const Ran ran = run_program({"train",      "translate",  "--out",
                                 path,         "--builtin",  "phrases",
                                 "--src-unit", "words",      "--tgt-unit",
                                 "words",      "--examples", "300",
                                 "--hidden",   "32",         "--embedding",
                                 "16",         "--steps",    "2",
                                 "--average",  "0",          "--valid-sentences",
                                 "0"});
    EXPECT_EQ(ran.code, 0) << ran.err;
    return path;
  }();
  return run;
}

const std::string& long_line() {
  static const std::string line = [] {
    std::string words = "the";
    for (int i = 1; i < 2000; ++i) words += i % 7 == 0 ? " cat" : " dog";
    return words;
  }();
  return line;
}

std::string short_line(int i) { return i % 2 == 0 ? "the cat" : "a dog and the cat"; }

TEST(Memory, OfOneLongLineAmongShortOnesIsThatOfTheLine) {
  const Folder folder;
  write_bytes(folder / "one.txt", long_line() + "\n");
  std::string all;
  for (int i = 0; i < 120; ++i) all += (i == 40 ? long_line() : short_line(i)) + "\n";
  write_bytes(folder / "all.txt", all);
  const Process::Ended one = measure({"predict", wordy_run(), "--file", folder / "one.txt"});
  ASSERT_EQ(one.code, 0) << one.err;
  const Process::Ended many = measure({"predict", wordy_run(), "--file", folder / "all.txt"});
  ASSERT_EQ(many.code, 0) << many.err;
  EXPECT_LT(many.peak_mb, one.peak_mb + kMore) << one.peak_mb;

  // In the order of the lines.
  std::vector<std::string> lines;
  for (size_t at = 0, end = 0; (end = many.out.find('\n', at)) != std::string::npos;) {
    lines.push_back(many.out.substr(at, end - at));
    at = end + 1;
  }
  ASSERT_EQ(lines.size(), 120u);
  EXPECT_EQ(lines[40] + "\n", one.out);
  for (const int i : {0, 39, 41, 119}) EXPECT_EQ(lines[i], lines[i % 2]);
}

TEST(Memory, OfAnEvaluationIsThatOfItsLongestPair) {
  const Folder folder;
  const std::string pair = long_line() + "\t" + long_line() + "\n";
  std::string all = pair;
  for (int i = 0; i < 120; ++i) all += fmt::format("{}\tle chat {}\n", short_line(i), i);
  write_bytes(folder / "one.tsv", pair);
  write_bytes(folder / "all.tsv", all);
  const Process::Ended one = measure({"eval", wordy_run(), folder / "one.tsv"});
  ASSERT_EQ(one.code, 0) << one.err;
  const Process::Ended many = measure({"eval", wordy_run(), folder / "all.tsv"});
  ASSERT_EQ(many.code, 0) << many.err;
  EXPECT_LT(many.peak_mb, one.peak_mb + kMore) << one.peak_mb;
}

TEST(Memory, ThatIsNotThereIsRefusedBeforeItIsTaken) {
  const Folder folder;
  const Process::Ended m =
      measure({"train", "translate", "--out", folder / "run", "--builtin", "phrases", "--examples",
               "200", "--hidden", "16384", "--layers", "64"});
  EXPECT_EQ(m.code, 2) << m.err;
  EXPECT_NE(m.err.find("GB"), std::string::npos) << m.err;
  EXPECT_NE(m.err.find("lower --hidden"), std::string::npos) << m.err;
  EXPECT_EQ(m.err.find('\n'), m.err.size() - 1) << m.err;
  EXPECT_LT(m.peak_mb, 170 + kMore);
  EXPECT_FALSE(fs::exists(folder / "run"));
}

}  // namespace
}  // namespace fovea::test
