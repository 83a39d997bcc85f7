#include "image/font.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "image/glyphs.h"
#include "image/utf8.h"

namespace fovea::image {
namespace {

// Accents above: two rows of five dots; those below: likewise, from the base line down.
struct Mark {
  char32_t combining;
  const char *first, *second;
  bool below = false;
};
constexpr std::array<Mark, 13> kMarks = {{
    {0x300, ".#...", "..#.."},        // grave
    {0x301, "...#.", "..#.."},        // acute
    {0x302, "..#..", ".#.#."},        // circumflex
    {0x303, ".##.#", "#..#."},        // tilde
    {0x304, ".....", ".###."},        // macron
    {0x306, "#...#", ".###."},        // breve
    {0x307, ".....", "..#.."},        // dot
    {0x308, ".....", ".#.#."},        // diaeresis
    {0x30a, ".##..", ".##.."},        // ring
    {0x30b, "..#.#", ".#.#."},        // double acute
    {0x30c, ".#.#.", "..#.."},        // caron
    {0x327, "..#..", ".##..", true},  // cedilla
    {0x328, "..#..", "..##.", true},  // ogonek
}};

// The accented letters of one mark, and in the same places the letters they stand on.
struct Accented {
  char32_t mark;
  const char32_t* letters;
  const char* bases;
};
constexpr Accented kAccented[] = {
    {0x300, U"ÀÈÌÒÙàèìòùǸǹ", "AEIOUaeiouNn"},
    {0x301, U"ÁÉÍÓÚÝáéíóúýĆćĹĺŃńŔŕŚśŹź", "AEIOUYaeiouyCcLlNnRrSsZz"},
    {0x302, U"ÂÊÎÔÛâêîôûĈĉĜĝĤĥĴĵŜŝŴŵŶŷ", "AEIOUaeiouCcGgHhJjSsWwYy"},
    {0x303, U"ÃÑÕãñõĨĩŨũ", "ANOanoIiUu"},
    {0x304, U"ĀāĒēĪīŌōŪū", "AaEeIiOoUu"},
    {0x306, U"ĂăĔĕĞğĬĭŎŏŬŭ", "AaEeGgIiOoUu"},
    {0x307, U"ĊċĖėĠġİŻż", "CcEeGgIZz"},
    {0x308, U"ÄËÏÖÜäëïöüÿŸ", "AEIOUaeiouyY"},
    {0x30a, U"ÅåŮů", "AaUu"},
    {0x30b, U"ŐőŰű", "OoUu"},
    {0x30c, U"ČčĎďĚěŇňŘřŠšŤťŽž", "CcDdEeNnRrSsTtZz"},
    {0x327, U"ÇçĢĶķĻļŅņŖŗŞşŢţ", "CcGKkLlNnRrSsTt"},
    {0x328, U"ĄąĘęĮįŲų", "AaEeIiUu"},
};

struct Letter {
  char32_t base, mark;
};
Letter take_apart(char32_t code) {
  for (const Accented& row : kAccented) {
    for (size_t i = 0; row.letters[i] != 0; ++i) {
      if (row.letters[i] == code) return {static_cast<unsigned char>(row.bases[i]), row.mark};
    }
  }
  return {code, 0};
}

bool is_combining(char32_t code) { return code >= 0x300 && code < 0x370; }

// Where a drawing starts among those that stand side by side.
struct Place {
  const char* const* rows;
  size_t column;
  bool dot(size_t x, size_t y) const { return rows[y][column + x] == '#'; }
};
Place place_of(char32_t code) {
  const auto at = [](const char* const* table, size_t i) {
    return Place{table + i / kGlyphsAbreast * kGlyphRows, i % kGlyphsAbreast * (kGlyphDots + 1)};
  };
  if (code == 0xa0) code = ' ';
  if (code == U'⏎') code = U'←';
  if (code >= ' ' && code <= '~') return at(kAscii, code - ' ');
  const auto* found = std::find(std::begin(kOthers), std::end(kOthers) - 1, code);
  const bool drawn = found != std::end(kOthers) - 1;
  return at(kOther, drawn ? static_cast<size_t>(found - std::begin(kOthers)) : 0);
}

class Writer {
 public:
  Writer(Image& picture, int x, int y, const Pen& pen)
      : picture_(picture), x_(x), y_(y), pen_(pen) {}

  void glyph(int at, char32_t code) {
    const Place place = place_of(code);
    for (size_t y = 0; y < kGlyphRows; ++y) {
      for (size_t x = 0; x < kGlyphDots; ++x) {
        if (place.dot(x, y)) dot(at, static_cast<int>(x), static_cast<int>(y) + kAbove);
      }
    }
  }

  // A gap of one row between the letter's highest dot and the mark.
  void mark(int at, char32_t base, char32_t combining) {
    const auto* mark = std::find_if(kMarks.begin(), kMarks.end(),
                                    [&](const Mark& m) { return m.combining == combining; });
    if (mark == kMarks.end()) return;
    const int y = mark->below ? kAbove + kBaseLine : top_of(base) + kAbove - 3;
    for (int x = 0; x < static_cast<int>(kGlyphDots); ++x) {
      if (mark->first[x] == '#') dot(at, x, y);
      if (mark->second[x] == '#') dot(at, x, y + 1);
    }
  }

 private:
  static constexpr int kAbove = kGlyphHeight - static_cast<int>(kGlyphRows);  // room for accents
  static constexpr int kBaseLine = 7;

  static int top_of(char32_t base) {
    const Place place = place_of(base);
    for (size_t y = 0; y < kGlyphRows; ++y) {
      for (size_t x = 0; x < kGlyphDots; ++x) {
        if (place.dot(x, y)) return static_cast<int>(y);
      }
    }
    return 0;
  }

  void dot(int at, int x, int y) {
    const int along = (at * kGlyphWidth + x) * pen_.scale, across = y * pen_.scale;
    if (pen_.upwards) {
      fill(picture_, x_ + across, y_ - along - pen_.scale, pen_.scale, pen_.scale, pen_.colour);
    } else {
      fill(picture_, x_ + along, y_ + across, pen_.scale, pen_.scale, pen_.colour);
    }
  }

  Image& picture_;
  int x_, y_;
  Pen pen_;
};

// Under an accent, an i without its dot.
char32_t standing(const Letter& letter) {
  const bool above = letter.mark != 0 && letter.mark < 0x327;
  return above && letter.base == 'i' ? U'ı' : letter.base;
}

}  // namespace

int glyphs(std::string_view utf8) {
  const std::u32string codes = from_utf8(utf8);
  return static_cast<int>(
      std::count_if(codes.begin(), codes.end(), [](char32_t code) { return !is_combining(code); }));
}

void draw_text(Image& picture, int x, int y, std::string_view utf8, const Pen& pen) {
  Writer writer(picture, x, y, pen);
  const std::u32string codes = from_utf8(utf8);
  int at = 0;
  for (size_t i = 0; i < codes.size(); ++at) {
    Letter letter = take_apart(codes[i++]);
    if (letter.mark == 0 && i < codes.size() && is_combining(codes[i])) letter.mark = codes[i++];
    const char32_t base = standing(letter);
    writer.glyph(at, base);
    writer.mark(at, base, letter.mark);
    while (i < codes.size() && is_combining(codes[i])) ++i;
  }
}

}  // namespace fovea::image
