#include <fcntl.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>

#include "app/program.h"

// What happens where nobody can read what is printed: words are left unsaid and work goes on;
// results that cannot be written are a failure, which is said.
namespace fovea::test {
namespace {

using Words = std::vector<std::string>;

// With redirections as a shell writes them.
Ran redirected(const Words& words, const std::string& how) {
  const Folder folder;
  std::string command = shell_quoted(program());
  for (const std::string& word : words) command += ' ' + shell_quoted(word);
  const int status =
      std::system(fmt::format("{{ {} {}; }} >{} 2>{}", command, how, shell_quoted(folder / "out"),
                              shell_quoted(folder / "err"))
                      .c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_bytes(folder / "out"),
          read_bytes(folder / "err")};
}

Words training(const std::string& run) {
  return {"train",    "translate", "--out",          run,   "--examples",        "200",
          "--hidden", "8",         "--embedding",    "4",   "--valid-sentences", "2",
          "--steps",  "4",         "--batch-tokens", "512", "--validate-every",  "2"};
}
// An open descriptor that a shell can name by one digit.
class Descriptor {
 public:
  Descriptor(int from, int number) : number_(number) { EXPECT_EQ(::dup2(from, number), number); }
  ~Descriptor() { ::close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

 private:
  int number_;
};

// The same weights and log as where everything can be printed.
void expect_trains(const std::vector<const char*>& redirections) {
  const Folder folder;
  const std::string usual = folder / "usual";
  ASSERT_EQ(run_program(training(usual)).code, 0);
  int n = 0;
  for (const char* how : redirections) {
    const std::string run = folder / std::to_string(n++);
    const Ran ran = redirected(training(run), how);
    EXPECT_EQ(ran.code, 0) << how;
    EXPECT_NE(ran.out.find("report.html"), std::string::npos) << how;
    EXPECT_TRUE(trained_in(run) == trained_in(usual)) << how;
  }
}

TEST(Printing, WordsThatNobodyReadsEndNoTraining) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const Descriptor reader_left(pipe[1], 8);
  ::close(pipe[0]);
  ::close(pipe[1]);
  expect_trains({"2>/dev/full", "2>&-", "2>&8", "0<&- 2>&-"});
}

TEST(Printing, ATerminalThatWasClosedEndsNoTraining) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || ::grantpt(terminal) != 0 || ::unlockpt(terminal) != 0) {
    GTEST_SKIP() << "there are no pseudo-terminals here";
  }
  const int line = ::open(::ptsname(terminal), O_WRONLY | O_NOCTTY);
  const Descriptor hung_up(line, 9);
  ::close(line);
  ::close(terminal);
  expect_trains({"2>&9"});
}

// Escapes are for terminals that know them.
TEST(Printing, ADumbTerminalGetsNoColours) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || ::grantpt(terminal) != 0 || ::unlockpt(terminal) != 0) {
    GTEST_SKIP() << "there are no pseudo-terminals here";
  }
  const int line = ::open(::ptsname(terminal), O_WRONLY | O_NOCTTY);
  const auto printed = [&](const char* kind) {
    const Descriptor there(line, 9);
    const std::string command =
        fmt::format("TERM={} {} attend --words 'a b' --show >&9", kind, shell_quoted(program()));
    EXPECT_EQ(std::system(command.c_str()), 0);
    std::string text(4096, '\0');
    text.resize(static_cast<size_t>(std::max<ssize_t>(0, ::read(terminal, text.data(), 4096))));
    return text;
  };
  EXPECT_NE(printed("xterm").find('\x1b'), std::string::npos);
  const std::string plain = printed("dumb");
  EXPECT_FALSE(plain.empty());
  EXPECT_EQ(plain.find('\x1b'), std::string::npos) << plain;
  ::close(line);
  ::close(terminal);
}

TEST(Printing, TrainingIsSavedThoughItsSummaryCannotBePrinted) {
  const Folder folder;
  const std::string usual = folder / "usual";
  ASSERT_EQ(run_program(training(usual)).code, 0);
  for (const char* how : {">/dev/full", ">&-"}) {
    const std::string run = folder / (how + 1 == std::string("&-") ? "closed" : "full");
    const Ran ran = redirected(training(run), how);
    EXPECT_EQ(ran.code, 1) << how;
    EXPECT_NE(ran.err.find("cannot write to standard output"), std::string::npos) << ran.err;
    EXPECT_TRUE(trained_in(run) == trained_in(usual)) << how;
  }
}

TEST(Printing, ResultsThatCannotBeWrittenAreAFailureWhichIsSaid) {
  const Folder folder;
  const std::string run = folder / "run";
  ASSERT_EQ(run_program(training(run)).code, 0);
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const Descriptor reader_left(pipe[1], 8);
  ::close(pipe[0]);
  ::close(pipe[1]);
  const std::vector<Words> commands = {
      {},
      {"--help"},
      {"--version"},
      {"info"},
      {"info", "--json"},
      {"train"},
      {"train", "translate", "--help"},
      {"eval", run},
      {"eval", run, "--json"},
      {"predict", run, "May 4, 1999"},
      {"predict", run, "--json", "May 4, 1999"},
      {"predict", run, "--show", "May 4, 1999"},
      {"explain", run, "May 4, 1999"},
      {"report", run, run},
      {"report", run},
      {"rank", "--blocks", "1", "--query-depth", "8", "--heads", "1", "--sequences", "1"},
      {"attend", "--words", "a cat sat"},
      {"attend", "--words", "a cat sat", "--show"},
  };
  for (const Words& command : commands) {
    for (const char* how : {">/dev/full", ">&-", ">&8"}) {
      const Ran ran = redirected(command, how);
      const std::string what = fmt::format("{} {}", fmt::join(command, " "), how);
      EXPECT_EQ(ran.code, 1) << what << '\n' << ran.err;
      EXPECT_NE(ran.err.find("cannot write to standard output"), std::string::npos) << what;
      // Neither can be written: the code alone says so.
      EXPECT_EQ(redirected(command, how + std::string(" 2>/dev/full")).code, 1) << what;
    }
    const Ran silent = redirected(command, "2>/dev/full");
    EXPECT_EQ(silent.code, 0) << fmt::format("{}", fmt::join(command, " "));
    EXPECT_FALSE(silent.out.empty());
  }
}

// A limit on the size of files is like a full disk: the write fails and is said.
TEST(Printing, AFileOverItsLimitIsAFailureWhichIsSaid) {
  const Folder folder;
  std::string command = "ulimit -f 8; exec " + shell_quoted(program());
  for (const std::string& word : training(folder / "run")) command += ' ' + shell_quoted(word);
  const std::string said = folder / "said";
  const int status =
      std::system((command + " 2>&1 >/dev/null | cat >" + shell_quoted(said)).c_str());
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_NE(test::read_bytes(said).find("File too large"), std::string::npos)
      << test::read_bytes(said);
}

TEST(Printing, AComplaintThatCannotBePrintedKeepsItsCode) {
  for (const char* how : {"2>/dev/full", "2>&-"}) {
    EXPECT_EQ(redirected({"eval", "/nowhere"}, how).code, 2) << how;
    EXPECT_EQ(redirected({"train", "transalte"}, how).code, 2) << how;
    EXPECT_EQ(redirected({"--nonsense"}, how).code, 2) << how;
  }
}

}  // namespace
}  // namespace fovea::test
