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
// is too long or holds a zero byte throws, before more of it is read.
class Lines {
 public:
  using Read = ReadBytes;
  Lines(std::string call, std::string name, Read);

  static Lines of_file(std::string call, const std::filesystem::path&);
  static Lines of_memory(std::string call, std::string name, std::string_view bytes);

  bool next(std::string& line);  // false at the end
  int64_t number() const { return number_; }
  const std::string& name() const { return name_; }
  [[noreturn]] void fail(std::string_view what) const;  // FILE:LINE: what

 private:
  bool more();

  std::string call_, name_;
  Read read_;
  std::vector<char> buffer_;
  size_t at_ = 0, end_ = 0;
  int64_t number_ = 0;  // of the last line read, from 1
};

std::vector<Pair> parse_tsv(Lines);
std::vector<Pair> parse_parallel(Lines source, Lines target);

}  // namespace fovea::text
