#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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

// take(code, bytes) for each code point, where bytes are valid UTF-8.
template <class Take>
void for_each_code_point(std::string_view text, Take&& take) {
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point(text, at);
    take(c.code, c.valid ? text.substr(at, c.bytes) : kReplacementBytes);
    at += c.bytes;
  }
}

// What a reader takes for one character (Unicode's extended grapheme clusters): a letter with its
// marks, a flag of two letters, emoji joined into one. Valid UTF-8, as characters() gives.
std::vector<std::string> graphemes(std::string_view text);

// Where graphemes begin, code point by code point.
class GraphemeBreaks {
 public:
  bool before(char32_t);  // whether one begins with it; true at first

 private:
  int32_t last_ = -1, state_ = 0;
};

// Unicode's normal forms, a code point at a time. What it is made of, and of that again:
enum class Decomposition : uint8_t { canonical, compatible };
std::u32string decomposed(char32_t, Decomposition);
uint8_t combining_class(char32_t);
char32_t composed(char32_t, char32_t);  // of two; 0: there is none

// Letter by letter, as Unicode's simple mapping has it. Valid UTF-8 whatever comes in.
std::string lowercase(std::string_view text);
bool is_lower(char32_t);
bool is_upper(char32_t);   // capital and title letters
bool is_letter(char32_t);  // of any script
bool is_number(char32_t);

bool is_ascii_space(char32_t);
bool is_space(char32_t);               // what Python's str.split() splits at
bool is_blank(std::string_view text);  // spaces alone, or nothing

}  // namespace fovea::text
