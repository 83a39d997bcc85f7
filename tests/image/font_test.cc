#include "image/font.h"

#include <gtest/gtest.h>

#include <string>

#include "image/glyphs.h"
#include "image/utf8.h"

namespace fovea::image {
namespace {

// A text at one pixel a dot, as characters.
std::string drawn(std::string_view text) {
  Image picture = blank(kGlyphWidth * glyphs(text), kGlyphHeight);
  draw_text(picture, 0, 0, text, {{0, 0, 0}, 1});
  std::string art;
  for (int y = 0; y < picture.height; ++y) {
    for (int x = 0; x < picture.width; ++x) {
      art += picture.rgb[static_cast<size_t>(3 * (y * picture.width + x))] == 0 ? '#' : '.';
    }
    art += '\n';
  }
  return art;
}

TEST(Font, AccentsStandOnTheirLetters) {
  EXPECT_EQ(drawn("éÇ"),
            "............\n"
            "............\n"
            "...#........\n"
            "..#....###..\n"
            "......#...#.\n"
            ".###..#.....\n"
            "#...#.#.....\n"
            "#####.#.....\n"
            "#.....#...#.\n"
            ".###...###..\n"
            "........#...\n"
            ".......##...\n");
}

TEST(Font, CombiningMarksDrawAsTheLetterWithItsAccent) {
  EXPECT_EQ(drawn("e\u0301"), drawn("é"));
  EXPECT_EQ(drawn("A\u030a"), drawn("Å"));
  EXPECT_EQ(glyphs("e\u0301te\u0301"), 3);
}

TEST(Font, EveryDrawnCharacterIsNeitherBlankNorTheBox) {
  const std::string box = drawn("\uFFFD");
  const std::string blank_cell = drawn(" ");
  for (char32_t code = '!'; code <= '~'; ++code) {
    const std::string art = drawn(to_utf8({&code, 1}));
    EXPECT_NE(art, box) << static_cast<char>(code);
    EXPECT_NE(art, blank_cell) << static_cast<char>(code);
  }
  for (const char* text : {"␣", "…", "–", "—", "·", "→", "←", "«", "»", "‘", "’", "“", "”", "¿",
                           "¡", "ß", "æ", "œ", "ø", "Æ", "Œ", "Ø", "ı", "€", "£", "°", "×", "▁",
                           "ł", "Ł", "đ", "à", "ü", "ñ", "ç", "Ő", "ş", "ę", "ž", "ā", "ğ"}) {
    EXPECT_NE(drawn(text), box) << text;
    EXPECT_NE(drawn(text), blank_cell) << text;
  }
}

TEST(Font, AnythingElseIsABox) {
  EXPECT_EQ(drawn("猫"), drawn("\uFFFD"));
  EXPECT_EQ(drawn("\xff"), drawn("\uFFFD"));
}

TEST(Font, AccentedLettersDifferFromTheirBases) {
  for (const auto& [accented, base] :
       {std::pair{"é", "e"}, {"à", "a"}, {"ï", "i"}, {"Ñ", "N"}, {"ç", "c"}, {"ů", "u"}}) {
    EXPECT_NE(drawn(accented), drawn(base)) << accented;
  }
}

TEST(Font, TurnedTextIsTheSameTurned) {
  const std::string text = "Où ?";
  const int length = kGlyphWidth * glyphs(text);
  Image across = blank(length, kGlyphHeight), upwards = blank(kGlyphHeight, length);
  draw_text(across, 0, 0, text, {{0, 0, 0}, 1});
  draw_text(upwards, 0, length, text, {{0, 0, 0}, 1, true});
  for (int y = 0; y < kGlyphHeight; ++y) {
    for (int x = 0; x < length; ++x) {
      ASSERT_EQ(across.rgb[static_cast<size_t>(3 * (y * length + x))],
                upwards.rgb[static_cast<size_t>(3 * ((length - 1 - x) * kGlyphHeight + y))]);
    }
  }
}

TEST(Font, WhatLeavesThePictureIsLeftOut) {
  Image picture = blank(10, 10);
  draw_text(picture, -7, -3, "Wide and low", {{0, 0, 0}, 4});
  EXPECT_EQ(picture.rgb.size(), 300u);
}

TEST(Utf8, ReadsAndWritesBack) {
  const std::string text = "aé…𝄞猫\u0301";
  EXPECT_EQ(to_utf8(from_utf8(text)), text);
  EXPECT_EQ(from_utf8(text).size(), 6u);
}

TEST(Utf8, BytesThatAreNoneBecomeTheReplacement) {
  EXPECT_EQ(from_utf8("a\xff"), U"a\uFFFD");
  EXPECT_EQ(from_utf8("\xc3"), U"\uFFFD");                      // cut
  EXPECT_EQ(from_utf8("\xc3("), U"\uFFFD(");                    // no continuation
  EXPECT_EQ(from_utf8("\xc0\x80"), U"\uFFFD\uFFFD");            // overlong
  EXPECT_EQ(from_utf8("\xe0\x80\x80"), U"\uFFFD\uFFFD\uFFFD");  // overlong
  EXPECT_EQ(from_utf8("\xed\xa0\x80"), U"\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(from_utf8("\xf4\x90\x80\x80").size(), 4u);          // beyond the last
  EXPECT_EQ(from_utf8("\uFFFDx"), U"\uFFFDx");
}

}  // namespace
}  // namespace fovea::image
