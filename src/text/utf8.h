#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace fovea::text {

inline constexpr char32_t kReplacement = 0xFFFD;
inline constexpr std::string_view kReplacementBytes = "\xEF\xBF\xBD";

struct CodePoint {
  char32_t code = 0;  // kReplacement where `valid` is false
  size_t bytes = 0;
  bool valid = true;
};
// The code point at `at` < text.size(). What is no UTF-8 is taken as the longest beginning of a
// sequence that could have been one, as Unicode recommends (and Python does).
CodePoint code_point(std::string_view text, size_t at);

bool is_ascii_space(char32_t);
bool is_space(char32_t);  // what Python's str.split() splits at

}  // namespace fovea::text
