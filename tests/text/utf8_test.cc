#include <gtest/gtest.h>

#include "fovea/text.h"
#include "text/utf8.h"

namespace fovea::text {
namespace {

using Texts = std::vector<std::string>;

TEST(Utf8, CharactersAreCodePoints) {
  EXPECT_EQ(characters(""), Texts{});
  EXPECT_EQ(characters("aé日😀"), (Texts{"a", "é", "日", "😀"}));
  EXPECT_EQ(characters("e\u0301"), (Texts{"e", "\u0301"}));
  EXPECT_EQ(characters("שלום"), (Texts{"ש", "ל", "ו", "ם"}));
  EXPECT_EQ(characters(std::string_view("\0a", 2)), (Texts{std::string(1, '\0'), "a"}));
}

// As bytes.decode("utf-8", "replace") does in Python.
TEST(Utf8, InvalidBytesAreReplaced) {
  const std::string r = "\uFFFD";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a\xFF"
       "b",
       "a" + r + "b"},
      {"\x80", r},
      {"\xC3", r},
      {"\xC3(", r + "("},
      {"\xC0\xAF", r + r},          // overlong
      {"\xE0\x80\xAF", r + r + r},  // overlong
      {"\xE2\x82", r},              // cut
      {"\xE2\x82"
       "a",
       r + "a"},
      {"\xF0\x9F\x98", r},  // cut
      {"\xF0\x9F\xF0\x9F\x98\x80", r + "😀"},
      {"\xED\xA0\x80", r + r + r},          // surrogate
      {"\xF4\x90\x80\x80", r + r + r + r},  // past U+10FFFF
      {"\xF8\x88\x80\x80\x80", r + r + r + r + r},
  };
  for (const auto& [bytes, expected] : cases) {
    EXPECT_EQ(valid_utf8(bytes), expected);
    std::string joined;
    for (const std::string& c : characters(bytes)) joined += c;
    EXPECT_EQ(joined, expected);
  }
}

TEST(Utf8, EveryCodePointIsItself) {
  for (char32_t code = 0x80; code <= 0x10FFFF; code += code < 0x3000 ? 1 : 97) {
    const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    std::string bytes(1, static_cast<char>((0xFF00 >> (more + 1) & 0xFF) | code >> 6 * more));
    for (int i = more - 1; i >= 0; --i) bytes += static_cast<char>(0x80 | (code >> 6 * i & 0x3F));
    const CodePoint found = code_point(bytes, 0);
    const bool surrogate = code >= 0xD800 && code < 0xE000;
    ASSERT_EQ(found.valid, !surrogate) << std::hex << static_cast<uint32_t>(code);
    if (surrogate) continue;
    ASSERT_EQ(found.code, code);
    ASSERT_EQ(found.bytes, bytes.size());
  }
}

TEST(Utf8, Columns) {
  EXPECT_EQ(columns(""), 0);
  EXPECT_EQ(columns("abc"), 3);
  EXPECT_EQ(columns("été"), 3);
  EXPECT_EQ(columns("e\u0301"), 1);
  EXPECT_EQ(columns("日本語"), 6);
  EXPECT_EQ(columns("한국"), 4);
  EXPECT_EQ(columns("ﾊﾝ"), 2);    // half-width
  EXPECT_EQ(columns("Ａ！"), 4);  // full-width
  EXPECT_EQ(columns("😀"), 2);
  EXPECT_EQ(columns("שָׁלוֹם"), 4);
  EXPECT_EQ(columns("नमस्ते"), 4);
  EXPECT_EQ(columns("नि"), 2);  // a spacing vowel sign
  EXPECT_EQ(columns("a\u200Db\n"), 2);
  EXPECT_EQ(columns("\xFF"), 1);
  EXPECT_EQ(columns("␣⁇…"), 3);
}

// Joined, coloured, of two letters, in parts: one sign, two columns.
TEST(Utf8, ColumnsOfWhatIsOneSign) {
  EXPECT_EQ(columns("👩‍👩‍👧‍👦"), 2);
  EXPECT_EQ(columns("👍🏽"), 2);
  EXPECT_EQ(columns("🇩🇪🇫🇷"), 4);
  EXPECT_EQ(columns("❤"), 1);
  EXPECT_EQ(columns("❤️"), 2);
  EXPECT_EQ(columns("\u1112\u1161\u11AB"), 2);  // 한
  EXPECT_EQ(columns("क्षि"), 3);
}

TEST(Utf8, GraphemesAreWhatAReaderCounts) {
  EXPECT_EQ(graphemes(""), Texts{});
  EXPECT_EQ(graphemes("e\u0301te\u0301"), (Texts{"e\u0301", "t", "e\u0301"}));
  EXPECT_EQ(graphemes("a👩‍👩‍👧👍🏽🇩🇪🇫🇷"),
            (Texts{"a", "👩‍👩‍👧", "👍🏽", "🇩🇪", "🇫🇷"}));
  EXPECT_EQ(graphemes("नमि"), (Texts{"न", "मि"}));
  EXPECT_EQ(graphemes("\u1112\u1161\u11AB가"), (Texts{"\u1112\u1161\u11AB", "가"}));
  EXPECT_EQ(graphemes("a\xFF\xE2\x82"), (Texts{"a", "\uFFFD", "\uFFFD"}));
}

}  // namespace
}  // namespace fovea::text
