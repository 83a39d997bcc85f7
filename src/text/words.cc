#include "text/words.h"

#include <algorithm>
#include <cstdint>

#include "text/utf8.h"

namespace fovea::text {
namespace {

enum class Kind : uint8_t { space, word, closing, opening, other };

struct Range {
  char32_t first, last;
};

// Punctuation outside ASCII. ⁇ (2047), which stands for an unknown word, is none.
constexpr Range kMarks[] = {{0xA7, 0xA7},     {0xAB, 0xAB},     {0xB6, 0xB7},     {0xBB, 0xBB},
                            {0x589, 0x58A},   {0x5BE, 0x5BE},   {0x5C0, 0x5C0},   {0x5C3, 0x5C3},
                            {0x60C, 0x60C},   {0x61B, 0x61B},   {0x61F, 0x61F},   {0x6D4, 0x6D4},
                            {0x964, 0x965},   {0x2010, 0x2027}, {0x2030, 0x2046}, {0x2048, 0x205E},
                            {0x20AC, 0x20AC}, {0x2E00, 0x2E7F}, {0x3001, 0x3003}, {0x3008, 0x3011},
                            {0x3014, 0x301F}, {0x30FB, 0x30FB}, {0xFF01, 0xFF0F}, {0xFF1A, 0xFF20},
                            {0xFF3B, 0xFF40}, {0xFF5B, 0xFF65}};

bool is_digit(char32_t c) { return c >= '0' && c <= '9'; }
bool is_apostrophe(char32_t c) { return c == '\'' || c == 0x2019; }
bool is_no_break_space(char32_t c) { return c == 0xA0 || c == 0x202F; }

Kind kind_of(char32_t c) {
  if (is_space(c)) return Kind::space;
  if (c < 0x80) {
    constexpr std::string_view kClosing = ".,!?;:)]}%", kOpening = "([{$#",
                               kOther = "\"'`-+*/=<>@&\\^|~";
    const char byte = static_cast<char>(c);
    if (kClosing.find(byte) != kClosing.npos) return Kind::closing;
    if (kOpening.find(byte) != kOpening.npos) return Kind::opening;
    return kOther.find(byte) != kOther.npos ? Kind::other : Kind::word;
  }
  if (c == 0xA1 || c == 0xA3 || c == 0xBF) return Kind::opening;
  if (c == 0x2026) return Kind::closing;
  const bool mark = std::any_of(std::begin(kMarks), std::end(kMarks),
                                [&](Range range) { return c >= range.first && c <= range.last; });
  return mark ? Kind::other : Kind::word;
}

// No space before, no space after.
bool hugs_left(Kind kind) { return kind == Kind::closing || kind == Kind::other; }
bool hugs_right(Kind kind) { return kind == Kind::opening || kind == Kind::other; }

struct KindedLetter {
  char32_t code;
  Kind kind;
  size_t begin, end;  // bytes
};

std::vector<KindedLetter> kinded_letters(std::string_view text) {
  std::vector<KindedLetter> letters;
  letters.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point(text, at);
    letters.push_back({c.code, kind_of(c.code), at, at + c.bytes});
    at += c.bytes;
  }
  return letters;
}

// Does the mark at i belong to the word around it?
bool inside_word(const std::vector<KindedLetter>& letters, size_t i) {
  if (i == 0 || i + 1 >= letters.size()) return false;
  if (letters[i - 1].kind != Kind::word || letters[i + 1].kind != Kind::word) return false;
  const char32_t c = letters[i].code;
  const bool number = is_digit(letters[i - 1].code) && is_digit(letters[i + 1].code);
  if (c == ',' || c == ':' || is_no_break_space(c)) return number;
  return c == '-' || c == '.' || c == '/' || c == '&' || c == '@' || c == 0xB7 || c == 0x2010 ||
         c == 0x2011 || is_apostrophe(c);
}

bool is_vowel(char32_t c) {
  constexpr std::u32string_view kVowels =
      U"aeiouyAEIOUYàâäæéèêëîïôöœùûüÀÂÄÆÉÈÊËÎÏÔÖŒÙÛÜìòáíóúÌÒÁÍÓÚ";
  return kVowels.find(c) != kVowels.npos;
}

// The apostrophe at i ends an elision when a vowel or h follows and a consonant or "qu" precedes:
// l'eau, qu'il, dell'arte, but not don't, I'm, O'Hara.
bool elides(const std::vector<KindedLetter>& letters, size_t first, size_t i) {
  const char32_t next = letters[i + 1].code;
  if (!is_apostrophe(letters[i].code) || !(is_vowel(next) || next == 'h' || next == 'H')) {
    return false;
  }
  const char32_t last = letters[i - 1].code;
  const char32_t before = i >= first + 2 ? letters[i - 2].code : 0;
  const bool qu = (last == 'u' || last == 'U') && (before == 'q' || before == 'Q');
  return qu || !(is_vowel(last) || is_digit(last));
}

// The end of the word that begins at `first`.
size_t end_of_word(const std::vector<KindedLetter>& letters, size_t first) {
  size_t i = first + 1;
  for (; i < letters.size(); ++i) {
    if (letters[i].kind == Kind::word) continue;
    if (!inside_word(letters, i)) return i;
    if (elides(letters, first, i)) return i + 1;
  }
  return i;
}

// The spaces [first, last) as a mark carries them.
std::string_view carried(std::string_view text, const std::vector<KindedLetter>& letters,
                         size_t first, size_t last) {
  if (last == first + 1 && is_no_break_space(letters[first].code)) {
    return text.substr(letters[first].begin, letters[first].end - letters[first].begin);
  }
  return " ";
}

}  // namespace

std::vector<std::string> split_words(std::string_view text) {
  const std::vector<KindedLetter> letters = kinded_letters(text);
  std::vector<std::string> pieces;
  for (size_t i = 0; i < letters.size();) {
    const size_t spaces = i;
    while (i < letters.size() && letters[i].kind == Kind::space) ++i;
    if (i == letters.size()) break;
    const size_t end = letters[i].kind == Kind::word ? end_of_word(letters, i) : i + 1;
    std::string piece(text.substr(letters[i].begin, letters[end - 1].end - letters[i].begin));
    if (spaces > 0 && i > spaces) {
      const std::string_view space = carried(text, letters, spaces, i);
      if (hugs_left(letters[i].kind)) {
        piece.insert(0, space);
      } else if (hugs_right(letters[spaces - 1].kind)) {
        pieces.back() += space;
      }
    }
    pieces.push_back(std::move(piece));
    i = end;
  }
  return pieces;
}

std::string join_words(std::span<const std::string> pieces) {
  std::string text;
  bool hugged = true;  // by what came before
  for (const std::string& piece : pieces) {
    if (piece.empty()) continue;
    const Kind first = kind_of(code_point(piece, 0).code);
    size_t at = piece.size() - 1;
    while (at > 0 && (static_cast<unsigned char>(piece[at]) & 0xC0) == 0x80) --at;
    const Kind last = kind_of(code_point(piece, at).code);
    if (!hugged && first != Kind::space && !hugs_left(first)) text += ' ';
    text += piece;
    hugged = last == Kind::space || hugs_right(last);
  }
  return text;
}

}  // namespace fovea::text
