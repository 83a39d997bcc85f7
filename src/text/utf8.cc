#include "text/utf8.h"

#include "fovea/text.h"

namespace fovea::text {
namespace {

// What a first byte announces: continuation bytes, and the range of the first of them.
struct Lead {
  size_t more;
  unsigned char low = 0x80, high = 0xBF;
};

Lead lead(unsigned char byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {1};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};  // no overlong forms
  if (byte == 0xED) return {2, 0x80, 0x9F};  // no surrogates
  if (byte >= 0xE1 && byte <= 0xEF) return {2};
  if (byte == 0xF0) return {3, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {3};
  if (byte == 0xF4) return {3, 0x80, 0x8F};  // up to U+10FFFF
  return {0};
}

}  // namespace

CodePoint code_point(std::string_view text, size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return {first, 1};
  Lead expected = lead(first);
  if (expected.more == 0) return {kReplacement, 1, false};
  char32_t code = first & (0x3F >> expected.more);
  for (size_t i = 1; i <= expected.more; ++i) {
    const auto byte = at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0;
    if (byte < expected.low || byte > expected.high) return {kReplacement, i, false};
    expected.low = 0x80;
    expected.high = 0xBF;
    code = code << 6 | (byte & 0x3F);
  }
  return {code, expected.more + 1};
}

bool is_ascii_space(char32_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

bool is_space(char32_t c) {
  return is_ascii_space(c) || (c >= 0x1C && c <= 0x1F) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

std::vector<std::string> characters(std::string_view text) {
  std::vector<std::string> all;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point(text, at);
    all.emplace_back(c.valid ? text.substr(at, c.bytes) : kReplacementBytes);
    at += c.bytes;
  }
  return all;
}

std::string valid_utf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point(text, at);
    valid += c.valid ? text.substr(at, c.bytes) : kReplacementBytes;
    at += c.bytes;
  }
  return valid;
}

}  // namespace fovea::text
