#include "text/words.h"

#include <gtest/gtest.h>

#include "fovea/text.h"

namespace fovea::text {
namespace {

using Texts = std::vector<std::string>;

TEST(Words, Split) {
  const std::vector<std::pair<std::string, Texts>> cases = {
      {"", {}},
      {"  \t ", {}},
      {"Go.", {"Go", "."}},
      {"Hello, world!", {"Hello", ",", "world", "!"}},
      {"well-known don't I'm O'Hara", {"well-known", "don't", "I'm", "O'Hara"}},
      {"l'eau qu'il d’été jusqu'à", {"l'", "eau", "qu'", "il", "d’", "été", "jusqu'", "à"}},
      {"l'homme dell'arte", {"l'", "homme", "dell'", "arte"}},
      {"1,000.50 10:30 3.14 2021-03-14", {"1,000.50", "10:30", "3.14", "2021-03-14"}},
      {"a,b a:b", {"a", ",", "b", "a", ":", "b"}},
      {"10\u202F000 v", {"10\u202F000", "v"}},
      {"(e.g. this)", {"(", "e.g", ".", "this", ")"}},
      {"a \"b\" c", {"a", " \"", "b", "\" ", "c"}},
      {"va ? va\u00A0?", {"va", " ?", "va", "\u00A0?"}},
      {"« oui »", {"« ", "oui", " »"}},
      {"a — b—c", {"a", " — ", "b", "—", "c"}},
      {"the dogs' tails", {"the", "dogs", "' ", "tails"}},
      {"你好，世界。", {"你好", "，", "世界", "。"}},
      {"e\u0301cole", {"e\u0301cole"}},
      {"مرحبا، يا", {"مرحبا", "، ", "يا"}},
      {"👩‍👩‍👧 hi", {"👩‍👩‍👧", "hi"}},
      {"snake_case a@b.org and/or", {"snake_case", "a@b.org", "and/or"}},
  };
  for (const auto& [text, pieces] : cases) EXPECT_EQ(split_words(text), pieces) << text;
}

TEST(Words, OrdinarySentencesComeBack) {
  for (const char* text : {"The ferry leaves at 10:30, but the bridge is open (all night).",
                           "He said, \"I don't know,\" and closed the door.",
                           "'Twas the dogs' bone... wasn't it?!",
                           "It costs $5, or 50% of £9.99; that's #1!",
                           "Qu'est-ce que c'est ? L'hôtel d’à côté !",
                           "« Il pleut », dit-elle. \u00AB\u00A0Oui\u00A0\u00BB",
                           "Ça va\u00A0? Très bien\u202F!",
                           "„Wann kommst du?“, fragte er; »nie«.",
                           "¿Dónde está? ¡Aquí!",
                           "“Yes,” she said — ‘no’.",
                           "Зачем? — спросила она.",
                           "这座桥建于1932年，长约1,200米。",
                           "昨日は雨が降った。「はい」",
                           "오늘은 날씨가 좋아서, 걸었다.",
                           "القطة تنام، والكلب يحرس؟",
                           "דו בא, והלך.",
                           "E\u0301cole nai\u0308ve.",
                           "Tonight 🎉 we dance 💃🏽!",
                           "x = y + z - 1 & a<b",
                           "a * b ~ c/d",
                           "[see [1], {2}]",
                           "C'est l'été: 30 °C.",
                           "⁇"}) {
    EXPECT_EQ(join_words(split_words(text)), text);
  }
}

TEST(Words, SpacesBecomeOne) {
  EXPECT_EQ(join_words(split_words("  a \t b \u2003 , c\u00A0d  ")), "a b , c d");
}

TEST(Words, AMissingSpaceIsFilledIn) {
  EXPECT_EQ(join_words(split_words("word(s)he")), "word (s) he");
}

// What comes back splits and comes back the same again, whatever it was.
TEST(Words, JoinedTextIsSettled) {
  const Texts alphabet = {"a",  "é",  "1", " ", " ",      "'", "’",      "\"", ".",
                          ",",  "(",  ")", "-", "$",      "«", "\u00A0", "q",  "u",
                          "日", "，", "…", "%", "\u0301", "😀", "⁇"};
  uint32_t state = 1;
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (int n = 0; n < 12; ++n) {
      state = state * 1664525u + 1013904223u;
      text += alphabet[(state >> 16) % alphabet.size()];
    }
    const std::string once = join_words(split_words(text));
    EXPECT_EQ(join_words(split_words(once)), once) << "'" << text << "'";
    Texts spaceless, originally;
    for (const std::string& c : characters(once)) {
      if (c != " " && c != "\u00A0") spaceless.push_back(c);
    }
    for (const std::string& c : characters(text)) {
      if (c != " " && c != "\u00A0") originally.push_back(c);
    }
    EXPECT_EQ(spaceless, originally);
  }
}

TEST(Words, JoinTakesWhatAModelMakesUp) {
  EXPECT_EQ(join_words(Texts{"a", "", "⁇", ".", "⁇"}), "a ⁇. ⁇");
  EXPECT_EQ(join_words(Texts{" ?", "\" ", "l'", "⁇"}), " ?\" l'⁇");
  EXPECT_EQ(join_words(Texts{}), "");
}

}  // namespace
}  // namespace fovea::text
