#include <fmt/format.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "fovea/text.h"
#include "tests/errors.h"
#include "tests/io/files.h"
#include "text/lines.h"

namespace fovea::text {
namespace {

using test::Folder;
using test::has;
using test::write_bytes;

std::vector<Pair> parsed(std::string_view bytes) {
  return parse_tsv(LineReader::of_memory("read_tsv", "file", bytes), MoreColumns::leave_out).pairs;
}

void expect_pairs(const std::vector<Pair>& found,
                  const std::vector<std::pair<std::string, std::string>>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].source, expected[i].first);
    EXPECT_EQ(found[i].target, expected[i].second);
  }
}

std::string short_error_of(const std::function<void()>& call) {
  const std::string message = test::error_of(call);
  EXPECT_LT(message.size(), 400u);
  return message;
}

std::string error_of_tsv(std::string_view bytes) {
  return short_error_of([&] { parsed(bytes); });
}

void write_gzip(const std::filesystem::path& path, const std::string& text, int times = 1) {
  gzFile file = gzopen(path.c_str(), "wb6");
  for (int i = 0; i < times; ++i) gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
}

TEST(Tsv, Pairs) {
  expect_pairs(parsed("a\tb\nc d\te f\n"), {{"a", "b"}, {"c d", "e f"}});
  expect_pairs(parsed("a\tb"), {{"a", "b"}});  // no newline at the end
  expect_pairs(parsed("a\tb\t\nc\td\n\n"), {{"a", "b"}, {"c", "d"}});
  expect_pairs(parsed("a\tb\r\nc\td\r\n"), {{"a", "b"}, {"c", "d"}});  // CR LF
  expect_pairs(parsed("\n\na\tb\n  \n\r\nc\td\n\n"), {{"a", "b"}, {"c", "d"}});
  expect_pairs(parsed("\xEF\xBB\xBF"
                      "a\tb\n"),
               {{"a", "b"}});                                        // byte order mark
  expect_pairs(parsed("a\xFF\tb\xC3\n"), {{"a\uFFFD", "b\uFFFD"}});  // invalid UTF-8
  expect_pairs(parsed("a\rb\tc\n"), {{"a\rb", "c"}});
}

// A third column, as Tatoeba's pairs have one, is no text that a tab cut off.
TEST(Tsv, MoreColumnsStandInEveryLine) {
  const auto columns = [](std::string_view bytes) {
    return parse_tsv(LineReader::of_memory("read_tsv", "file", bytes), MoreColumns::leave_out)
        .columns;
  };
  expect_pairs(parsed("a\tb\tCC-BY\tmore\nc\td\t\t\n"), {{"a", "b"}, {"c", "d"}});
  EXPECT_EQ(columns("a\tb\tCC-BY\nc\td\t\n"), 3);
  EXPECT_EQ(columns("a\tb\t\nc\td\n"), 2);
  EXPECT_TRUE(has(error_of_tsv("a\tb\nc\td\tcut off\n"),
                  "file:2: 3 columns, the lines before have 2; a tab within a text"));
  EXPECT_TRUE(
      has(error_of_tsv("a\tb\tcut off\nc\td\n"), "file:2: 2 columns, the lines before have 3; "));
  EXPECT_TRUE(has(short_error_of([] {
                    parse_tsv(LineReader::of_memory("read_tsv", "file", "a\tb\tc\n"),
                              MoreColumns::refuse);
                  }),
                  "file:1: 3 columns, expected two"));
}

TEST(Tsv, WhatIsWrittenOtherwiseIsSaid) {
  EXPECT_TRUE(has(error_of_tsv(std::string_view("\xFF\xFE"
                                                "a\0\t\0b\0\n\0",
                                                10)),
                  "file:1: this is UTF-16; save it as UTF-8"));
  EXPECT_TRUE(has(error_of_tsv(std::string_view("\xFE\xFF\0a\0\t\0b\0\n", 10)), "UTF-16;"));
  EXPECT_TRUE(has(error_of_tsv(std::string_view("a\0\t\0b\0\n\0", 8)), "or UTF-16"));
  EXPECT_TRUE(has(error_of_tsv("a\tb\rc\td\re\tf"), "CR alone"));
  std::string latin1;
  for (int i = 0; i < 20; ++i) latin1 += i % 2 == 0 ? "a\tb\n" : "caf\xE9\tb\n";
  EXPECT_EQ(error_of_tsv(latin1),
            "[read_tsv] file: 10 of 20 lines are no UTF-8, the first is line 2; save it as UTF-8, "
            "as iconv -f LATIN1 -t UTF-8 does where it is Latin-1");
  for (int i = 0; i < 200; ++i) latin1 += "a\tb\n";
  EXPECT_EQ(parsed(latin1)[1].source, "caf\uFFFD");
}

TEST(Tsv, QuotationMarksMeanNothing) {
  expect_pairs(parsed("\"open\tb\nc\td\"\n\"e\"\t'f\n"),
               {{"\"open", "b"}, {"c", "d\""}, {"\"e\"", "'f"}});
}

TEST(Tsv, ErrorsNameTheLine) {
  EXPECT_EQ(error_of_tsv("a\tb\n\nno tab\n"),
            "[read_tsv] file:3: expected source<TAB>target, found 'no tab'");
  EXPECT_EQ(error_of_tsv("a\tb\n\tb\n"), "[read_tsv] file:2: the source is empty");
  EXPECT_EQ(error_of_tsv("a\tb\n \tb\n"), "[read_tsv] file:2: the source is empty");
  EXPECT_EQ(error_of_tsv("a\tb\n\u00A0 \u3000\tb\n"), "[read_tsv] file:2: the source is empty");
  EXPECT_EQ(error_of_tsv("a\t\n"), "[read_tsv] file:1: the target is empty");
  EXPECT_EQ(error_of_tsv("a\t\tlicence\n"), "[read_tsv] file:1: the target is empty");
  EXPECT_EQ(error_of_tsv(std::string_view("a\tb\nc\0\td\n", 9)),
            "[read_tsv] file:2: a zero byte: this is no text, or UTF-16, which must be saved as "
            "UTF-8");
  EXPECT_EQ(error_of_tsv(""), "[read_tsv] file: no pairs, the file is empty");
  EXPECT_EQ(error_of_tsv("\n\r\n"), "[read_tsv] file:2: no pairs");
  EXPECT_EQ(error_of_tsv("a\tb\n" + std::string(kMaxLine + 1, 'x')),
            "[read_tsv] file:2: a line of more than 1000000 bytes");
}

TEST(Tsv, ALineUpToTheLimitIsRead) {
  const std::string longest = std::string(kMaxLine - 2, 'x') + "\ty";
  EXPECT_EQ(parsed(longest + "\na\tb\n").size(), 2u);
}

// Of a line of 100 MB, little more than the limit is ever asked for.
TEST(Tsv, ALineWithoutEndIsNotHeld) {
  uint64_t given = 0;
  const LineReader::Read endless = [&](char* to, size_t most) {
    std::fill_n(to, most, 'x');
    given += most;
    return given > 100'000'000 ? 0 : most;
  };
  EXPECT_EQ(short_error_of([&] {
              parse_tsv(LineReader("read_tsv", "file", endless), MoreColumns::leave_out);
            }),
            "[read_tsv] file:1: a line of more than 1000000 bytes");
  EXPECT_LT(given, 2 * kMaxLine);
}

TEST(Tsv, BuffersThatEndAnywhere) {
  const std::string bytes =
      "\xEF\xBB\xBF"
      "aé\tb\ty\r\n\r\nc\t日本\tx\r\n";
  for (size_t at_once = 1; at_once < bytes.size(); ++at_once) {
    std::string_view rest = bytes;
    const LineReader::Read read = [&](char* to, size_t most) {
      const size_t n = std::min({most, at_once, rest.size()});
      std::copy_n(rest.data(), n, to);
      rest.remove_prefix(n);
      return n;
    };
    expect_pairs(parse_tsv(LineReader("read_tsv", "file", read), MoreColumns::leave_out).pairs,
                 {{"aé", "b"}, {"c", "日本"}});
  }
}

TEST(TsvFile, PlainAndGzipped) {
  const Folder folder;
  write_bytes(folder / "plain.tsv", "a\tb\nc\td\n");
  write_gzip(folder / "packed.tsv.gz", "a\tb\nc\td\n");
  expect_pairs(read_tsv(folder / "plain.tsv"), {{"a", "b"}, {"c", "d"}});
  expect_pairs(read_tsv(folder / "packed.tsv.gz"), {{"a", "b"}, {"c", "d"}});
}

TEST(TsvFile, ErrorsNameTheFile) {
  const Folder folder;
  const std::string path = (folder / "x.tsv").string();
  const auto error = [&] { return short_error_of([&] { read_tsv(path); }); };
  EXPECT_EQ(error(), "[read_tsv] " + path + ": No such file or directory");
  write_bytes(path, "");
  EXPECT_EQ(error(), "[read_tsv] " + path + ": no pairs, the file is empty");
  write_bytes(path, "a\tb\nc\n");
  EXPECT_EQ(error(), "[read_tsv] " + path + ":2: expected source<TAB>target, found 'c'");
  EXPECT_NE(short_error_of([&] { read_tsv(folder / "."); }).find("is a folder"), std::string::npos);
  EXPECT_NE(short_error_of([] { read_tsv("/dev/zero"); }).find("is a device"), std::string::npos);
}

std::string many_pairs() {
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += fmt::format("source {}\ttarget {}\n", i * 7919, i);
  return text;
}

TEST(TsvFile, BrokenGzip) {
  const Folder folder;
  write_gzip(folder / "good.gz", many_pairs());
  EXPECT_EQ(read_tsv(folder / "good.gz").size(), 20'000u);
  const std::string bytes = test::read_bytes(folder / "good.gz");
  for (const size_t size : {bytes.size() - 1, bytes.size() - 9, bytes.size() / 2}) {
    write_bytes(folder / "cut.gz", bytes.substr(0, size));
    const std::string error = short_error_of([&] { read_tsv(folder / "cut.gz"); });
    EXPECT_NE(error.find("ends too early"), std::string::npos) << error;
  }
  for (size_t i = 20; i < bytes.size(); i += bytes.size() / 50) {
    std::string flipped = bytes;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x10);
    write_bytes(folder / "flipped.gz", flipped);
    EXPECT_NE(short_error_of([&] { read_tsv(folder / "flipped.gz"); }), "no error") << i;
  }
}

TEST(TsvFile, AGzipBombStopsAtTheCap) {
  const Folder folder;
  std::string line(500, 'a');
  line[250] = '\t';
  line.back() = '\n';
  write_gzip(folder / "bomb.gz", line, 200'000);  // 100 MB from 300 KB
  const std::string error = short_error_of([&] { read_tsv(folder / "bomb.gz"); });
  EXPECT_NE(error.find("unpacks to over 100 times its size"), std::string::npos) << error;
  write_gzip(folder / "small.gz", line, 10'000);  // as dense, but small
  EXPECT_EQ(read_tsv(folder / "small.gz").size(), 10'000u);
  write_gzip(folder / "one_line.gz", std::string(1 << 20, 'a'), 100);
  const std::string long_line = short_error_of([&] { read_tsv(folder / "one_line.gz"); });
  EXPECT_NE(long_line.find(":1: a line of more than"), std::string::npos) << long_line;
}

TEST(Parallel, LinesOfTwoFiles) {
  const Folder folder;
  write_bytes(folder / "a", "one\ntwo\tand more\n\nfour\n");
  write_bytes(folder / "b", "eins\r\nzwei\r\n\r\nvier");
  expect_pairs(read_parallel(folder / "a", folder / "b"),
               {{"one", "eins"}, {"two\tand more", "zwei"}, {"four", "vier"}});
}

TEST(Parallel, RefusesWhatDoesNotPair) {
  const Folder folder;
  const std::string a = (folder / "a").string(), b = (folder / "b").string();
  const auto error = [&] { return short_error_of([&] { read_parallel(a, b); }); };
  write_bytes(a, "1\n2\n3\n");
  write_bytes(b, "1\n2\n3\n4\n5\n");
  EXPECT_EQ(error(), "[read_parallel] " + a + " has 3 lines, " + b + " has 5");
  write_bytes(a, "1\n2\n3\n4\n5\n6\n7\n");
  EXPECT_EQ(error(), "[read_parallel] " + a + " has 7 lines, " + b + " has 5");
  write_bytes(a, "1\n2\n\n4\n5\n");
  EXPECT_EQ(error(), "[read_parallel] " + a + ":3: the source is empty");
  write_bytes(a, "1\n2\n3\n4\n5\n");
  write_bytes(b, "1\n\n3\n4\n5\n");
  EXPECT_EQ(error(), "[read_parallel] " + b + ":2: the target is empty");
  write_bytes(a, "");
  write_bytes(b, "");
  EXPECT_EQ(error(), "[read_parallel] " + a + ": no pairs, the file is empty");
  EXPECT_NE(short_error_of([&] { read_parallel(a, folder / "c"); }).find("No such file"),
            std::string::npos);
}

TEST(ReadLines, EveryLine) {
  const Folder folder;
  write_bytes(folder / "a", "one\n\n two \r\n\xFF");
  EXPECT_EQ(read_lines(folder / "a"), (std::vector<std::string>{"one", "", " two ", "\uFFFD"}));
  write_bytes(folder / "b", "");
  EXPECT_THROW(read_lines(folder / "b"), Error);
}

// text8 is 100 MB of words in one line.
TEST(ReadText, ALineOfAnyLengthIsCutAtBlanks) {
  const Folder folder;
  std::string words;
  while (words.size() < 2 * kMaxLine) words += "anarchism originated as a term ";
  write_bytes(folder / "text8", words);
  EXPECT_THROW(read_lines(folder / "text8"), Error);
  const std::vector<std::string> pieces = read_text(folder / "text8");
  std::string joined;
  for (const std::string& piece : pieces) {
    EXPECT_LE(piece.size(), 10'000u);
    joined += (joined.empty() ? "" : " ") + piece;
  }
  EXPECT_EQ(joined, words);
  std::string letters;
  for (int i = 0; i < 10'000; ++i) letters += "日";
  write_bytes(folder / "letters", "short\n" + letters + "\nend\n");
  const std::vector<std::string> whole = read_text(folder / "letters");
  EXPECT_EQ(whole.front(), "short");
  EXPECT_EQ(whole.back(), "end");
  joined.clear();
  for (size_t i = 1; i + 1 < whole.size(); ++i) joined += whole[i];
  EXPECT_EQ(joined, letters);
  write_bytes(folder / "one", words.substr(0, 50'000));
  EXPECT_NEAR(static_cast<double>(read_text(folder / "one").size()), 205, 5);
  std::string paragraphs;
  for (int i = 0; i < 100; ++i) paragraphs += words.substr(0, 9'000) + "\n";
  write_bytes(folder / "book", paragraphs);
  EXPECT_EQ(read_text(folder / "book").size(), 100u);
}

// ---- Splits -------------------------------------------------------------------------------------

std::vector<Pair> numbered(int n) {
  std::vector<Pair> pairs;
  for (int i = 0; i < n; ++i) {
    pairs.push_back({fmt::format("source {}", i % (n / 2)), fmt::format("target {}", i)});
  }
  return pairs;
}

std::map<std::string, std::string> sides(const Split& split) {
  std::map<std::string, std::string> side;
  for (const Pair& pair : split.train) side[pair.source] += "r";
  for (const Pair& pair : split.valid) side[pair.source] += "v";
  for (const Pair& pair : split.test) side[pair.source] += "t";
  return side;
}

TEST(SplitBySource, OneSourceIsOnOneSide) {
  const Split split = split_by_source(numbered(20'000), 0.1, 0.2, 7);
  for (const auto& [source, side] : sides(split)) {
    EXPECT_TRUE(side == "rr" || side == "vv" || side == "tt") << source << " " << side;
  }
  EXPECT_EQ(split.train.size() + split.valid.size() + split.test.size(), 20'000u);
  EXPECT_NEAR(static_cast<double>(split.valid.size()), 2000, 250);
  EXPECT_NEAR(static_cast<double>(split.test.size()), 4000, 350);
}

TEST(SplitBySource, DependsOnSeedAndSourceAlone) {
  const auto all = sides(split_by_source(numbered(2000), 0.2, 0.2, 7));
  std::vector<Pair> some = numbered(2000);
  std::reverse(some.begin(), some.end());
  some.resize(1000);
  for (const auto& [source, side] : sides(split_by_source(some, 0.2, 0.2, 7))) {
    EXPECT_EQ(side[0], all.at(source)[0]);
  }
  EXPECT_NE(sides(split_by_source(numbered(2000), 0.2, 0.2, 8)), all);
}

TEST(SplitBySource, Shares) {
  EXPECT_EQ(split_by_source(numbered(100), 0, 0, 1).train.size(), 100u);
  EXPECT_EQ(split_by_source(numbered(100), 0, 1, 1).test.size(), 100u);
  EXPECT_EQ(split_by_source(numbered(100), 1, 0, 1).valid.size(), 100u);
  EXPECT_TRUE(split_by_source({}, 0.5, 0.5, 1).train.empty());
  EXPECT_THROW(split_by_source({}, -0.1, 0, 1), Error);
  EXPECT_THROW(split_by_source({}, 0.6, 0.6, 1), Error);
  EXPECT_THROW(split_by_source({}, std::nan(""), 0, 1), Error);
}

}  // namespace
}  // namespace fovea::text
