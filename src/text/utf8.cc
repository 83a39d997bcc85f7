#include "text/utf8.h"

#include <utf8proc.h>

#include <algorithm>

#include "fovea/text.h"

namespace fovea::text {
namespace {

const utf8proc_uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const utf8proc_uint8_t*>(text.data());
}

// Bytes of the longest beginning of a sequence at the start of `text`, which has no whole one. Two
// bytes decide whether a sequence can go on, and then any continuation bytes complete it.
size_t broken_bytes(std::string_view text) {
  for (size_t n = std::min<size_t>(text.size(), 3); n > 1; --n) {
    std::string completed(text.substr(0, n));
    completed.resize(4, '\x80');
    utf8proc_int32_t code = 0;
    if (utf8proc_iterate(bytes_of(completed), 4, &code) > 0) return n;
  }
  return 1;
}

utf8proc_category_t category_of(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

// A mark with a width of its own (Mc, as the vowel sign of नि) takes a column, as for wcwidth().
int columns_of(char32_t code) {
  const auto c = static_cast<utf8proc_int32_t>(code);
  return utf8proc_category(c) == UTF8PROC_CATEGORY_MC ? 1 : utf8proc_charwidth(c);
}

// take(bytes, columns) for each grapheme. One that has a wide character (emoji that are joined,
// Hangul in parts) or asks to be drawn as an emoji (U+FE0F) takes two columns as a whole.
template <class Take>
void for_each_grapheme(std::string_view text, Take&& take) {
  constexpr char32_t kAsEmoji = 0xFE0F;
  std::string grapheme;
  int columns = 0;
  bool wide = false;
  utf8proc_int32_t before = 0, state = 0;
  for_each_code_point(text, [&](char32_t code, std::string_view bytes) {
    const auto c = static_cast<utf8proc_int32_t>(code);
    if (!grapheme.empty() && utf8proc_grapheme_break_stateful(before, c, &state)) {
      take(grapheme, wide ? 2 : columns);
      grapheme.clear(), columns = 0, wide = false;
    }
    const int width = columns_of(code);
    grapheme += bytes, columns += width, wide = wide || width == 2 || code == kAsEmoji;
    before = c;
  });
  if (!grapheme.empty()) take(grapheme, wide ? 2 : columns);
}

}  // namespace

CodePoint code_point(std::string_view text, size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return {first, 1};
  const std::string_view rest = text.substr(at);
  utf8proc_int32_t code = 0;
  const auto bytes =
      utf8proc_iterate(bytes_of(rest), static_cast<utf8proc_ssize_t>(rest.size()), &code);
  if (bytes <= 0) return {kReplacement, broken_bytes(rest), false};
  return {static_cast<char32_t>(code), static_cast<size_t>(bytes)};
}

bool GraphemeBreaks::before(char32_t code) {
  const auto c = static_cast<utf8proc_int32_t>(code);
  const bool begins = last_ < 0 || utf8proc_grapheme_break_stateful(last_, c, &state_);
  last_ = c;
  return begins;
}

std::u32string decomposed(char32_t code, Decomposition kind) {
  constexpr utf8proc_ssize_t kMost = 32;  // U+FDFA has 18
  utf8proc_int32_t parts[kMost];
  int boundary = 0;
  const int options =
      UTF8PROC_DECOMPOSE | (kind == Decomposition::compatible ? UTF8PROC_COMPAT : 0);
  const utf8proc_ssize_t n =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), parts, kMost,
                              static_cast<utf8proc_option_t>(options), &boundary);
  if (n <= 0 || n > kMost) return {code};
  return {parts, parts + n};
}

uint8_t combining_class(char32_t code) {
  return static_cast<uint8_t>(
      utf8proc_get_property(static_cast<utf8proc_int32_t>(code))->combining_class);
}

char32_t composed(char32_t a, char32_t b) {
  utf8proc_int32_t pair[] = {static_cast<utf8proc_int32_t>(a), static_cast<utf8proc_int32_t>(b)};
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  return utf8proc_normalize_utf32(pair, 2, options) == 1 ? static_cast<char32_t>(pair[0]) : 0;
}

std::string lowercase(std::string_view text) {
  std::string lower;
  lower.reserve(text.size());
  for_each_code_point(text, [&](char32_t code, std::string_view bytes) {
    if (code < 0x80) {
      lower += static_cast<char>(code >= 'A' && code <= 'Z' ? code + ('a' - 'A') : code);
      return;
    }
    const utf8proc_int32_t small = utf8proc_tolower(static_cast<utf8proc_int32_t>(code));
    utf8proc_uint8_t encoded[4];
    const auto n = static_cast<size_t>(utf8proc_encode_char(small, encoded));
    if (small == static_cast<utf8proc_int32_t>(code)) {
      lower += bytes;
    } else {
      lower.append(reinterpret_cast<const char*>(encoded), n);
    }
  });
  return lower;
}

bool is_lower(char32_t c) { return category_of(c) == UTF8PROC_CATEGORY_LL; }
bool is_upper(char32_t c) {
  return category_of(c) == UTF8PROC_CATEGORY_LU || category_of(c) == UTF8PROC_CATEGORY_LT;
}
bool is_letter(char32_t c) {
  return category_of(c) >= UTF8PROC_CATEGORY_LU && category_of(c) <= UTF8PROC_CATEGORY_LO;
}
bool is_number(char32_t c) {
  return category_of(c) >= UTF8PROC_CATEGORY_ND && category_of(c) <= UTF8PROC_CATEGORY_NO;
}

bool is_ascii_space(char32_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

bool is_space(char32_t c) {
  return is_ascii_space(c) || (c >= 0x1C && c <= 0x1F) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_blank(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point(text, at);
    if (!is_space(c.code)) return false;
    at += c.bytes;
  }
  return true;
}

std::vector<std::string> characters(std::string_view text) {
  std::vector<std::string> all;
  for_each_code_point(text, [&](char32_t, std::string_view bytes) { all.emplace_back(bytes); });
  return all;
}

std::vector<std::string> graphemes(std::string_view text) {
  std::vector<std::string> all;
  for_each_grapheme(text, [&](const std::string& bytes, int) { all.push_back(bytes); });
  return all;
}

std::string valid_utf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  for_each_code_point(text, [&](char32_t, std::string_view bytes) { valid += bytes; });
  return valid;
}

int64_t columns(std::string_view text) {
  int64_t width = 0;
  for_each_grapheme(text, [&](const std::string&, int columns) { width += columns; });
  return width;
}

}  // namespace fovea::text
