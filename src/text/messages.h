#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// What is put into messages for people.
namespace fovea::text {

// The first few of many, and how many there are: what is wrong in a thousand places takes no
// thousand lines.
class FirstFew {
 public:
  static constexpr size_t kMost = 3;
  bool add(std::string one);  // whether it is one of the first
  int64_t count() const { return count_; }
  const std::vector<std::string>& first() const { return first_; }
  std::string text() const;  // "a, b, c and 4 more"

 private:
  std::vector<std::string> first_;
  int64_t count_ = 0;
};

// A piece of what was found, in quotes, without control characters.
std::string quoted_piece(std::string_view found);

// An argument as a shell takes it: as it is where nothing in it means something there, otherwise in
// single quotes.
std::string shell_quoted(std::string_view argument);
// A file or folder so, that no program takes for an option: -run as ./-run.
std::string shell_path(std::string_view path);

}  // namespace fovea::text
