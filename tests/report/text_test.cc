#include <gtest/gtest.h>

#include <cmath>

#include "fovea/error.h"
#include "report/heatmap.h"
#include "report/label.h"

namespace fovea::report {
namespace {

// Colours are ours alone to send.
TEST(ForTerminal, ControlsVanishAndTextStays) {
  EXPECT_EQ(for_terminal("a\x1b[2Jb\x07\r\x7f\u009b1mc"), "a[2Jb1mc");
  EXPECT_EQ(for_terminal("one\ttwo\nthree é 日\u200f"), "one\ttwo\nthree é 日\u200f");
  EXPECT_EQ(for_terminal("\xff"), "\uFFFD");
}

TEST(Text, CharactersAreLabelledInOneLine) {
  const Heatmap map{
      "3 May", {"0", "5", "-", "3"}, {"3", " ", "M", "a", "y"}, {0.0f, 0.0f, 0.3f, 0.3f, 0.4f,  //
                                                                 0.0f, 0.0f, 0.1f, 0.4f, 0.5f,  //
                                                                 0.0f, 1.0f, 0.0f, 0.0f, 0.0f,  //
                                                                 0.9f, 0.1f, 0.0f, 0.0f, 0.0f}};
  EXPECT_EQ(to_text(map, Ink::plain),
            "3 May\n"
            "  3 ␣ M a y\n"
            "0 ····▒▒▒▒▒▒\n"
            "5 ····░░▒▒▓▓\n"
            "- ··██······\n"
            "3 ██░░······\n");
}

TEST(Text, SignedWeightsHaveAMinus) {
  const Heatmap map{"", {"x"}, {"a", "b", "c", "d"}, {-2, 0, 0.5f, 1.8f}, Scale::around_zero};
  EXPECT_EQ(to_text(map, Ink::plain),
            "  a b c d\n"
            "x −█··▒▒██\n"
            "  ██ = 2\n");
  EXPECT_NE(to_text(map, Ink::colour).find("\x1b[48;2;64;154;240m"), std::string::npos);
}

TEST(Text, WordsAreLabelledAsStairs) {
  const Heatmap map{"",
                    {"le", "chat", "était"},
                    {"the", "cat", "was"},
                    {0.8f, 0.2f, 0.0f, 0.1f, 0.9f, 0.0f, 0.0f, 0.3f, 0.7f}};
  EXPECT_EQ(to_text(map, Ink::plain),
            "      ┌ the\n"
            "      │ ┌ cat\n"
            "      │ │ ┌ was\n"
            "   le ██░░··\n"
            " chat ░░██··\n"
            "était ··▒▒▓▓\n");
}

TEST(Text, ManyWordsRunDownwards) {
  Heatmap map{"", {"x"}, {}, {}};
  for (int j = 0; j < 17; ++j) {
    map.columns.push_back(j % 2 == 0 ? "ab" : "déf");
    map.weights.push_back(j == 3 ? 1.0f : 0.0f);
  }
  EXPECT_EQ(to_text(map, Ink::plain),
            "    d   d   d   d   d   d   d   d\n"
            "  a é a é a é a é a é a é a é a é a\n"
            "  b f b f b f b f b f b f b f b f b\n"
            "x ······██··························\n");
}

TEST(Text, WideSourcesAreCut) {
  Heatmap map{"", {"x", "y"}, {}, {}};
  for (int j = 0; j < 30; ++j) map.columns.emplace_back(1, static_cast<char>('a' + j % 26));
  map.weights.assign(60, 0.0f);
  map.weights[0] = map.weights[31] = 1.0f;
  EXPECT_EQ(to_text(map, Ink::plain, 13),
            "  a b c d e\n"
            "x ██········…\n"
            "y ··██······…\n");
}

TEST(Text, NoLineIsWiderThanTheTerminal) {
  Heatmap map{"", {std::string(60, 'r'), "猫が好き"}, {}, {}};
  for (int j = 0; j < 70; ++j) map.columns.push_back(std::string(40, 'c') + std::to_string(j));
  map.weights.assign(140, 0.1f);
  for (const size_t columns : {3, 16, 70}) {
    Heatmap part{
        "", map.rows, {map.columns.begin(), map.columns.begin() + static_cast<int>(columns)}, {}};
    part.weights.assign(2 * columns, 0.6f);
    for (const int width : {24, 40, 80, 132}) {
      const std::string text = to_text(part, Ink::plain, width);
      for (size_t from = 0; from < text.size();) {
        const size_t to = text.find('\n', from);
        EXPECT_LE(columns_of(text.substr(from, to - from)), width) << text;
        from = to + 1;
      }
    }
  }
}

TEST(Text, WideCharactersFillTheirCells) {
  const Heatmap map{"", {"猫", "a"}, {"犬", "b", "e\u0301"}, {1, 0, 0, 0, 1, 0}};
  EXPECT_EQ(to_text(map, Ink::plain),
            "   犬b e\u0301\n"
            "猫 ██····\n"
            " a ··██··\n");
}

TEST(Text, SmallWeightsAreScaledAndItSays) {
  const Heatmap map{"", {"r"}, {"a", "b"}, {0.02f, 0.01f}};
  EXPECT_EQ(to_text(map, Ink::plain),
            "  a b\n"
            "r ██▓▓\n"
            "  ██ = 0.02\n");
}

TEST(Text, WeightsThatAreNoNumbersShow) {
  const Heatmap map{"", {"r"}, {"a", "b", "c"}, {NAN, 1.0f, -0.5f}};
  EXPECT_EQ(to_text(map, Ink::plain),
            "  a b c\n"
            "r ??██··\n");
  EXPECT_NE(to_text(map, Ink::colour).find("??"), std::string::npos);
}

TEST(Text, ColoursGoFromDarkToBright) {
  const Heatmap map{"", {"r"}, {"a", "b"}, {0.0f, 1.0f}};
  EXPECT_EQ(to_text(map, Ink::colour),
            "  a b\n"
            "r \x1b[48;2;24;24;40m  \x1b[0m\x1b[48;2;255;184;70m  \x1b[0m\n");
}

TEST(Text, NothingIsSaid) {
  EXPECT_EQ(to_text(Heatmap{}, Ink::plain), "(nothing)\n");
  EXPECT_EQ(to_text(Heatmap{"t", {"a"}, {}, {}}, Ink::plain), "t\n(nothing)\n");
}

// A label must not move the cursor or change the terminal's colours.
TEST(Text, LabelsCannotSteerTheTerminal) {
  const Heatmap map{"\x1b[2Jtitle", {"\x1b[31m"}, {"\n", "\t", "\u202e"}, {0, 0, 0}};
  const std::string text = to_text(map, Ink::plain);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find("\u202e"), std::string::npos);
  EXPECT_NE(text.find("↵ ⇥"), std::string::npos) << text;
}

TEST(Text, WeightsMustFillTheMap) {
  EXPECT_THROW(to_text(Heatmap{"", {"a"}, {"b", "c"}, {1.0f}}, Ink::plain), Error);
}

TEST(Label, CutKeepsWhatFits) {
  EXPECT_EQ(cut("accord", 6), "accord");
  EXPECT_EQ(cut("accord", 4), "acc…");
  EXPECT_EQ(cut("猫猫猫", 4), "猫…");
  EXPECT_EQ(cut("accord", 0), "");
  EXPECT_EQ(cut("e\u0301te\u0301", 3), "e\u0301te\u0301");
}

TEST(Label, CutKeepsCharactersWhole) {
  EXPECT_EQ(cut("👩‍👩‍👧👍🏽🇩🇪🇫🇷", 7),
            "👩‍👩‍👧👍🏽🇩🇪…");
  EXPECT_EQ(cut("नमस्तेनमस्ते", 5), "नमस्ते…");
}

TEST(Label, VisibleShowsWhatIsNot) {
  EXPECT_EQ(visible("a b"), "a b");
  EXPECT_EQ(visible("\n"), "↵");
  EXPECT_EQ(visible("a\tb"), "a⇥b");
  EXPECT_EQ(visible("  "), "␣␣");
  EXPECT_EQ(visible("\u00a0"), "␣");
  EXPECT_EQ(visible("\u202eabc\u061c\x1b"), "abc");
  EXPECT_EQ(visible("\xff"), "\uFFFD");
  EXPECT_EQ(visible(""), "");
}

TEST(Label, EscapesWhatIsMarkup) {
  EXPECT_EQ(escape("<a b='\"'>&é"), "&lt;a b=&#39;&quot;&#39;&gt;&amp;é");
  EXPECT_EQ(escape("a\n\x01\xEF\xBF\xBE\x80"), "a\n\uFFFD");
}

TEST(Label, BroadLettersTakeMoreRoom) {
  EXPECT_EQ(drawn_columns_of("abc"), 3);
  EXPECT_EQ(drawn_columns_of("日本"), 4);
  EXPECT_EQ(drawn_columns_of("मन"), 2);
  EXPECT_EQ(drawn_columns_of("மன"), 3);
}

TEST(Label, EmojiWithoutPictures) {
  EXPECT_EQ(without_pictures("no emoji: é日م क\u200dष"), "no emoji: é日م क\u200dष");
  EXPECT_EQ(without_pictures("a😀b"), "a😀\uFE0Eb");
  EXPECT_EQ(without_pictures("❤️"), "❤\uFE0E");
  EXPECT_EQ(without_pictures("👍🏽"), "👍\uFE0E");
  EXPECT_EQ(without_pictures("👩‍🚀"), "👩\uFE0E🚀\uFE0E");
  EXPECT_EQ(without_pictures("🇩🇪"), "🇩\uFE0E🇪\uFE0E");
  EXPECT_EQ(without_pictures("1️⃣"), "1️⃣");
  EXPECT_EQ(without_pictures("❤️‍🔥x"), "❤\uFE0E🔥\uFE0Ex");
  const std::string once = without_pictures("😀❤️👩‍🚀🇩🇪");
  EXPECT_EQ(without_pictures(once), once);
}

TEST(Label, NumbersKeepFourDigits) {
  EXPECT_EQ(number(0), "0");
  EXPECT_EQ(number(0.123456), "0.1235");
  EXPECT_EQ(number(-2.5), "−2.5");
  EXPECT_EQ(number(12345), "12345");
  EXPECT_EQ(number(1.5e-7), "1.5e-07");
  EXPECT_EQ(number(std::nan("")), "NaN");
  EXPECT_EQ(number(-INFINITY), "−∞");
}

}  // namespace
}  // namespace fovea::report
