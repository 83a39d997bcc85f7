#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "app/program.h"
#include "tests/reduced.h"

// What the program takes of the machine's memory, by the largest resident set of its process.
namespace fovea::test {
namespace {

namespace fs = std::filesystem;

struct Measured {
  Ran ran;
  double peak_mb;
};

Measured measure(const std::vector<std::string>& arguments) {
  const Folder folder;
  const std::string out = folder / "out", err = folder / "err";
  std::vector<std::string> words = {FOVEA_BINARY};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    dup2(open(out.c_str(), O_WRONLY | O_CREAT, 0600), STDOUT_FILENO);
    dup2(open(err.c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  rusage used{};
  wait4(child, &status, 0, &used);
  return {{WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_bytes(out), read_bytes(err)},
          static_cast<double>(used.ru_maxrss) / 1024};
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
  const Measured one = measure({"predict", wordy_run(), "--file", folder / "one.txt"});
  ASSERT_EQ(one.ran.code, 0) << one.ran.err;
  const Measured many = measure({"predict", wordy_run(), "--file", folder / "all.txt"});
  ASSERT_EQ(many.ran.code, 0) << many.ran.err;
  EXPECT_LT(many.peak_mb, one.peak_mb + kMore) << one.peak_mb;

  // In the order of the lines.
  std::vector<std::string> lines;
  for (size_t at = 0, end = 0; (end = many.ran.out.find('\n', at)) != std::string::npos;) {
    lines.push_back(many.ran.out.substr(at, end - at));
    at = end + 1;
  }
  ASSERT_EQ(lines.size(), 120u);
  EXPECT_EQ(lines[40] + "\n", one.ran.out);
  for (const int i : {0, 39, 41, 119}) EXPECT_EQ(lines[i], lines[i % 2]);
}

TEST(Memory, OfAnEvaluationIsThatOfItsLongestPair) {
  const Folder folder;
  const std::string pair = long_line() + "\t" + long_line() + "\n";
  std::string all = pair;
  for (int i = 0; i < 120; ++i) all += fmt::format("{}\tle chat {}\n", short_line(i), i);
  write_bytes(folder / "one.tsv", pair);
  write_bytes(folder / "all.tsv", all);
  const Measured one = measure({"eval", wordy_run(), folder / "one.tsv"});
  ASSERT_EQ(one.ran.code, 0) << one.ran.err;
  const Measured many = measure({"eval", wordy_run(), folder / "all.tsv"});
  ASSERT_EQ(many.ran.code, 0) << many.ran.err;
  EXPECT_LT(many.peak_mb, one.peak_mb + kMore) << one.peak_mb;
}

TEST(Memory, ThatIsNotThereIsRefusedBeforeItIsTaken) {
  const Folder folder;
  const Measured m = measure({"train", "translate", "--out", folder / "run", "--builtin", "phrases",
                              "--examples", "200", "--hidden", "16384", "--layers", "64"});
  EXPECT_EQ(m.ran.code, 2) << m.ran.err;
  EXPECT_NE(m.ran.err.find("GB"), std::string::npos) << m.ran.err;
  EXPECT_NE(m.ran.err.find("lower --hidden"), std::string::npos) << m.ran.err;
  EXPECT_EQ(m.ran.err.find('\n'), m.ran.err.size() - 1) << m.ran.err;
  EXPECT_LT(m.peak_mb, 170 + kMore);
  EXPECT_FALSE(fs::exists(folder / "run"));
}

}  // namespace
}  // namespace fovea::test
