#include "report/label.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "image/utf8.h"

namespace fovea::report {
namespace {

using image::from_utf8;
using image::to_utf8;

struct Range {
  char32_t first, last;
};
template <size_t n>
bool in(const Range (&ranges)[n], char32_t code) {
  return std::any_of(std::begin(ranges), std::end(ranges),
                     [&](const Range& r) { return code >= r.first && code <= r.last; });
}

bool is_direction(char32_t code) {
  static constexpr Range kRanges[] = {{0x200e, 0x200f}, {0x202a, 0x202e}, {0x2066, 0x2069}};
  return in(kRanges, code);
}
bool is_control(char32_t code) { return code < 0x20 || (code >= 0x7f && code < 0xa0); }

// Marks that sit on the character before them, joiners, variation selectors.
bool is_mark(char32_t code) {
  static constexpr Range kRanges[] = {
      {0x0300, 0x036f},  {0x0483, 0x0489}, {0x0591, 0x05bd}, {0x0610, 0x061a}, {0x064b, 0x065f},
      {0x0670, 0x0670},  {0x06d6, 0x06dc}, {0x093c, 0x093c}, {0x0941, 0x0948}, {0x094d, 0x094d},
      {0x0e31, 0x0e31},  {0x0e34, 0x0e3a}, {0x0e47, 0x0e4e}, {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff},
      {0x200b, 0x200f},  {0x2028, 0x202e}, {0x2060, 0x2069}, {0x20d0, 0x20ff}, {0x302a, 0x302d},
      {0x3099, 0x309a},  {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0xfeff, 0xfeff}, {0x1f3fb, 0x1f3ff},
      {0xe0000, 0xe0fff}};
  return in(kRanges, code);
}

// East Asian wide and full-width characters, and emoji.
bool is_wide(char32_t code) {
  static constexpr Range kRanges[] = {
      {0x1100, 0x115f},   {0x231a, 0x231b},   {0x23e9, 0x23ec},   {0x2614, 0x2615},
      {0x2648, 0x2653},   {0x26a1, 0x26a1},   {0x2705, 0x2705},   {0x274c, 0x274c},
      {0x2753, 0x2757},   {0x2795, 0x2797},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},
      {0xa960, 0xa97f},   {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},
      {0xff00, 0xff60},   {0xffe0, 0xffe6},   {0x1b000, 0x1b2ff}, {0x1f004, 0x1f004},
      {0x1f18e, 0x1f19a}, {0x1f200, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f900, 0x1faff},
      {0x20000, 0x3fffd}};
  return in(kRanges, code);
}

int columns_of(char32_t code) {
  if (is_control(code) || is_mark(code)) return 0;
  return is_wide(code) ? 2 : 1;
}

}  // namespace

std::string visible(std::string_view utf8) {
  std::u32string label;
  for (const char32_t code : from_utf8(utf8)) {
    if (code == '\n') {
      label += U'↵';
    } else if (code == '\t') {
      label += U'⇥';
    } else if (!is_control(code) && !is_direction(code)) {
      label += code;
    }
  }
  const bool blank = std::all_of(label.begin(), label.end(),
                                 [](char32_t code) { return code == ' ' || code == 0xa0; });
  if (blank) std::fill(label.begin(), label.end(), U'␣');
  return to_utf8(label);
}

int columns_of(std::string_view utf8) {
  int columns = 0;
  for (const char32_t code : from_utf8(utf8)) columns += columns_of(code);
  return columns;
}

std::string cut(std::string_view utf8, int columns) {
  if (columns_of(utf8) <= columns) return std::string(utf8);
  if (columns < 1) return "";
  std::string kept;
  int used = 1;
  for (const std::string& c : characters(utf8)) {
    used += columns_of(c);
    if (used > columns) break;
    kept += c;
  }
  return kept + "…";
}

std::vector<std::string> characters(std::string_view utf8) {
  std::vector<std::string> list;
  for (const char32_t code : from_utf8(utf8)) {
    const std::string one = to_utf8({&code, 1});
    if (is_mark(code) && !list.empty()) {
      list.back() += one;
    } else {
      list.push_back(one);
    }
  }
  return list;
}

std::string escape(std::string_view utf8) {
  std::string text;
  for (const char32_t code : from_utf8(utf8)) {
    switch (code) {
      case '&':
        text += "&amp;";
        break;
      case '<':
        text += "&lt;";
        break;
      case '>':
        text += "&gt;";
        break;
      case '"':
        text += "&quot;";
        break;
      case '\'':
        text += "&#39;";
        break;
      default:
        const bool blank = code == '\n' || code == '\t' || code == '\r';
        const bool forbidden = (is_control(code) && !blank) || (code & 0xfffe) == 0xfffe;
        if (!forbidden) text += to_utf8({&code, 1});
    }
  }
  return text;
}

std::string for_script(std::string json) {
  std::string text;
  for (const char c : json) {
    if (c == '<' || c == '>' || c == '&') {
      text += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      text += c;
    }
  }
  return text;
}

std::string number(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "NaN" : value > 0 ? "∞" : "−∞";
  const double size = std::abs(value);
  std::string text = size == 0                    ? "0"
                     : size >= 1e6 || size < 1e-4 ? fmt::format("{:.3g}", value)
                     : size >= 1000               ? fmt::format("{:.0f}", value)
                                                  : fmt::format("{:.4g}", value);
  if (text.front() == '-') text.replace(0, 1, "−");
  return text;
}

}  // namespace fovea::report
