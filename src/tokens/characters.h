#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Characters as the tokenizers' own library sees them. It mixes several versions of Unicode, none
// of them utf8proc's; unicode_table.inc has what it says of every code point.
namespace fovea::tokens {

enum Class : uint16_t {
  kLetter = 1 << 0,       // \p{L}
  kNumber = 1 << 1,       // \p{N}
  kPunctuation = 1 << 2,  // BERT's
  kControl = 1 << 3,      // BERT's: controls, formats, private use
  kNonspacing = 1 << 4,   // BERT's accents
  kAccent = 1 << 5,       // StripAccents'
  kWord = 1 << 6,         // \w
  kDecomposes = 1 << 7,   // is something else in NFKD
  kReorders = 1 << 8,     // has a combining class
  kExtends = 1 << 9,      // goes on in the grapheme of a letter
};

class Classes {
 public:
  uint16_t operator()(char32_t c) const { return pages_[page_[c >> kBits] + (c & kMask)]; }

 private:
  friend const Classes& classes();
  Classes();
  static constexpr uint32_t kBits = 7, kMask = (1 << kBits) - 1;
  uint32_t page_[0x110000 >> kBits];
  std::vector<uint16_t> pages_;
};
const Classes& classes();  // made once

// \s: Unicode's White_Space.
inline bool is_white(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

// c in lower case; of İ, i and a dot above.
struct Lower {
  char32_t first, second = 0;
};
Lower lower(char32_t c);

// The code point at `at`, which is moved behind it.
inline char32_t next_code(std::string_view valid_utf8, size_t& at) {
  const auto byte = [&](size_t i) -> char32_t {
    return static_cast<unsigned char>(valid_utf8[at + i]);
  };
  const char32_t first = byte(0);
  char32_t code = first;
  size_t n = 1;
  if (first >= 0xF0) {
    code = (first & 7) << 18 | (byte(1) & 63) << 12 | (byte(2) & 63) << 6 | (byte(3) & 63), n = 4;
  } else if (first >= 0xE0) {
    code = (first & 15) << 12 | (byte(1) & 63) << 6 | (byte(2) & 63), n = 3;
  } else if (first >= 0x80) {
    code = (first & 31) << 6 | (byte(1) & 63), n = 2;
  }
  at += n;
  return code;
}

inline bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

void append_utf8(std::string&, char32_t);
std::string utf8_of(char32_t);
std::vector<char32_t> decoded(std::string_view valid_utf8);
void replace_each(std::string& text, std::string_view what, std::string_view by);
char32_t only_character(std::string_view valid_utf8);  // 0: none, or more than one

}  // namespace fovea::tokens
