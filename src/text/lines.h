#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/text.h"
#include "io/gzip.h"

// Text files, line by line, from a file (plain or gzipped) or from memory.
namespace fovea::text {

inline constexpr size_t kMaxLine = 1'000'000;  // bytes

// A line ends with LF or CR LF; a byte order mark is dropped, invalid UTF-8 replaced. A line that
// is too long or holds a zero byte throws, before more of it is read; so does what is written
// otherwise as a whole: UTF-16, lines that end with CR alone, and text with so much invalid UTF-8
// that it is of another encoding.
class LineReader {
 public:
  using Read = ReadBytes;
  LineReader(std::string call, std::string name, Read, size_t longest = kMaxLine);

  static LineReader of_file(std::string call, const std::filesystem::path&,
                            size_t longest = kMaxLine);
  static LineReader of_memory(std::string call, std::string name, std::string_view bytes);

  bool next(std::string& line);  // false at the end
  bool has_line() const;         // a whole one has been read: next() waits for nothing
  int64_t number() const { return number_; }
  const std::string& name() const { return name_; }
  [[noreturn]] void fail(std::string_view what) const { fail_at(number_, what); }
  [[noreturn]] void fail_at(int64_t line, std::string_view what) const;  // FILE:LINE: what

 private:
  bool more();
  void check(const std::string& line, size_t had) const;
  void check_encoding() const;

  std::string call_, name_;
  Read read_;
  std::vector<char> buffer_;
  size_t at_ = 0, end_ = 0;
  size_t longest_;
  int64_t number_ = 0;                       // of the last line read, from 1
  int64_t invalid_ = 0, first_invalid_ = 0;  // lines that are not UTF-8
};

// What separates the columns of a CSV file, by its first line: commas, semicolons or tabs.
char separator_in(std::string_view first_line);

// A text, whose lines may be of any length: pieces of long ones, cut at blanks, are lines here.
// They have 10,000 bytes at most; in a text of few lines a 200th of it, and 200 bytes at least.
std::vector<std::string> read_text(const std::filesystem::path&);

// Pairs of the first two columns. What comes after them may be columns, if every line has as many;
// text that a tab cuts in two may not.
enum class MoreColumns : uint8_t { refuse, leave_out };
struct Tsv {
  std::vector<Pair> pairs;
  int64_t columns = 2;
};
Tsv parse_tsv(LineReader, MoreColumns, std::string_view expected = "source<TAB>target");
std::vector<Pair> parse_parallel(LineReader source, LineReader target);

}  // namespace fovea::text
