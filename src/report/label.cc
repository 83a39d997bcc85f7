#include "report/label.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "fovea/text.h"
#include "text/utf8.h"

namespace fovea::report {
namespace {

bool is_direction(char32_t code) {
  return code == 0x061c || (code >= 0x200e && code <= 0x200f) ||
         (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}
bool is_control(char32_t code) { return code < 0x20 || (code >= 0x7f && code < 0xa0); }
bool is_blank(char32_t code) { return code == ' ' || code == 0xa0; }
bool is_emoji(char32_t code) { return code >= 0x1f000 && code <= 0x1faff; }
bool is_skin_colour(char32_t code) { return code >= 0x1f3fb && code <= 0x1f3ff; }

// Tamil, Malayalam, Sinhala, Burmese, Cherokee, letters of formulas: up to 1.5 times as broad as a
// monospaced letter where others are not 1.02 times.
bool is_broad(char32_t code) {
  return (code >= 0x0b80 && code <= 0x0bff) || (code >= 0x0d00 && code <= 0x0dff) ||
         (code >= 0x1000 && code <= 0x109f) || (code >= 0x13a0 && code <= 0x13ff) ||
         (code >= 0x1d400 && code <= 0x1d7ff);
}

}  // namespace

std::string visible(std::string_view utf8) {
  std::string label;
  size_t length = 0, blanks = 0;
  text::for_each_code_point(utf8, [&](char32_t code, std::string_view bytes) {
    if (code != '\n' && code != '\t' && (is_control(code) || is_direction(code))) return;
    label += code == '\n' ? "↵" : code == '\t' ? "⇥" : bytes;
    ++length, blanks += is_blank(code);
  });
  if (blanks < length) return label;
  label.clear();
  for (size_t i = 0; i < blanks; ++i) label += "␣";
  return label;
}

std::string for_terminal(std::string_view utf8) {
  std::string text;
  text::for_each_code_point(utf8, [&](char32_t code, std::string_view bytes) {
    if (code == '\n' || code == '\t' || !is_control(code)) text += bytes;
  });
  return text;
}

int columns_of(std::string_view utf8) { return static_cast<int>(text::columns(utf8)); }

std::string padded(std::string text, int columns) {
  const int missing = columns - columns_of(text);
  if (missing > 0) text.append(static_cast<size_t>(missing), ' ');
  return text;
}

std::string cut(std::string_view utf8, int columns) {
  if (columns_of(utf8) <= columns) return std::string(utf8);
  if (columns < 1) return "";
  std::string kept;
  int used = 1;
  for (const std::string& grapheme : text::graphemes(utf8)) {
    used += columns_of(grapheme);
    if (used > columns) break;
    kept += grapheme;
  }
  return kept + "…";
}

double drawn_columns_of(std::string_view utf8) {
  bool broad = false;
  int code_points = 0;
  text::for_each_code_point(utf8, [&](char32_t code, std::string_view) {
    broad = broad || is_broad(code);
    ++code_points;
  });
  const int columns = columns_of(utf8);
  // Where no font has them, some versions of pango draw a box for each code point, marks too.
  return code_points > columns || broad ? 1.5 * std::max(columns, code_points) : columns;
}

std::string without_pictures(std::string_view utf8) {
  constexpr char32_t kJoiner = 0x200d, kAsSign = 0xfe0e, kAsPicture = 0xfe0f;
  std::string label;
  bool emoji = false, key = false;  // before; a key (1️⃣) has no sign
  text::for_each_code_point(utf8, [&](char32_t code, std::string_view bytes) {
    const bool asks = code == kAsSign || (code == kAsPicture && !key);
    if (emoji && (asks || code == kJoiner || is_skin_colour(code))) return;
    emoji = asks || is_emoji(code);
    if (!asks) label += bytes;
    if (emoji) label += "\uFE0E";
    key = code < 0x80;
  });
  return label;
}

std::string escape(std::string_view utf8) {
  std::string safe;
  text::for_each_code_point(utf8, [&](char32_t code, std::string_view bytes) {
    const bool space = code == '\n' || code == '\t' || code == '\r';
    const bool forbidden = (is_control(code) && !space) || (code & 0xfffe) == 0xfffe;
    if (forbidden) return;
    safe += code == '&'    ? "&amp;"
            : code == '<'  ? "&lt;"
            : code == '>'  ? "&gt;"
            : code == '"'  ? "&quot;"
            : code == '\'' ? "&#39;"
                           : bytes;
  });
  return safe;
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
