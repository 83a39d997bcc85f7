#include "text/messages.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace fovea::text {
namespace {

TEST(FirstFew, NamesThreeAndCountsTheRest) {
  FirstFew few;
  EXPECT_EQ(few.text(), "");
  EXPECT_TRUE(few.add("a"));
  EXPECT_TRUE(few.add("b"));
  EXPECT_TRUE(few.add("c"));
  EXPECT_EQ(few.text(), "a, b, c");
  for (int i = 0; i < 7000; ++i) EXPECT_FALSE(few.add("d"));
  EXPECT_EQ(few.count(), 7003);
  EXPECT_EQ(few.text(), "a, b, c and 7000 more");
}

TEST(QuotedPiece, IsShortAndSafe) {
  EXPECT_EQ(quoted_piece("a\x1b[2Jb"), "'a?[2Jb'");
  EXPECT_EQ(quoted_piece(std::string(60, 'x')), "'" + std::string(40, 'x') + "…'");
  std::string letters;
  for (int i = 0; i < 40; ++i) letters += "日";
  EXPECT_EQ(quoted_piece(letters), "'" + letters + "'");
  EXPECT_EQ(quoted_piece(letters + "日"), "'" + letters + "…'");
}

std::string echoed(const std::string& argument) {
  FILE* shell = ::popen(("printf %s " + shell_quoted(argument)).c_str(), "r");
  std::string out;
  for (int c = 0; (c = std::fgetc(shell)) != EOF;) out += static_cast<char>(c);
  ::pclose(shell);
  return out;
}

TEST(ShellQuoted, AShellTakesItAsItIs) {
  EXPECT_EQ(shell_quoted("runs/translate-dates"), "runs/translate-dates");
  EXPECT_EQ(shell_quoted("scene:7"), "scene:7");
  EXPECT_EQ(shell_quoted("my runs"), "'my runs'");
  EXPECT_EQ(shell_quoted(""), "''");
  for (const char* argument : {"a b", "it's", "$HOME", "`id`", "a\\b", "\"q\"", "*", "~", "a;b|c&d",
                               "!x", "#x", "(a)", "日本 語", "'", "''", "a\nb"}) {
    EXPECT_EQ(echoed(argument), argument);
  }
}

TEST(ShellPath, IsNoOption) {
  EXPECT_EQ(shell_path("runs/translate-dates"), "runs/translate-dates");
  EXPECT_EQ(shell_path("-run"), "./-run");
  EXPECT_EQ(shell_path("--my run"), "./'--my run'");
  EXPECT_EQ(shell_path("my run"), "'my run'");
}

}  // namespace
}  // namespace fovea::text
