#include "image/utf8.h"

namespace fovea::image {
namespace {

// The bytes that a sequence has by its first one; 0 where none starts so.
size_t length_of(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0) return 2;
  if (first >= 0xe0 && first < 0xf0) return 3;
  return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

// The code point of a whole sequence, or U+FFFD.
char32_t decode(std::string_view bytes) {
  static constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const auto first = static_cast<unsigned char>(bytes[0]);
  if (bytes.size() == 1) return first;
  char32_t code = first & (0xffu >> (bytes.size() + 1));
  for (const char c : bytes.substr(1)) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xc0u) != 0x80u) return kUnreadable;
    code = code << 6 | (byte & 0x3fu);
  }
  const bool valid =
      code >= kLeast[bytes.size()] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
  return valid ? code : kUnreadable;
}

}  // namespace

std::u32string from_utf8(std::string_view text) {
  static constexpr std::string_view kReplacement = "\xef\xbf\xbd";
  std::u32string codes;
  for (size_t i = 0; i < text.size();) {
    const size_t length = length_of(static_cast<unsigned char>(text[i]));
    const std::string_view bytes = text.substr(i, length);
    const bool whole = length > 0 && bytes.size() == length;
    codes.push_back(whole ? decode(bytes) : kUnreadable);
    const bool read = codes.back() != kUnreadable || bytes == kReplacement;
    i += read ? length : 1;
  }
  return codes;
}

std::string to_utf8(std::u32string_view codes) {
  std::string text;
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  for (const char32_t code : codes) {
    if (code < 0x80) {
      put(code);
    } else if (code < 0x800) {
      put(0xc0 | code >> 6), put(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
      put(0xe0 | code >> 12), put(0x80 | (code >> 6 & 0x3f)), put(0x80 | (code & 0x3f));
    } else {
      put(0xf0 | code >> 18), put(0x80 | (code >> 12 & 0x3f));
      put(0x80 | (code >> 6 & 0x3f)), put(0x80 | (code & 0x3f));
    }
  }
  return text;
}

}  // namespace fovea::image
