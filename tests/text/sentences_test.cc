#include "text/sentences.h"

#include <gtest/gtest.h>

#include "text/utf8.h"

namespace fovea::text {
namespace {

using Sentences = std::vector<std::string>;

TEST(Sentences, EndAtMarksAndLineBreaks) {
  EXPECT_EQ(split_sentences("One. Two! Three? Four"),
            (Sentences{"One.", "Two!", "Three?", "Four"}));
  EXPECT_EQ(split_sentences("one\ntwo three\r\n\n  four  \n"),
            (Sentences{"one", "two three", "four"}));
  EXPECT_EQ(split_sentences("Wait… What?! Yes."), (Sentences{"Wait…", "What?!", "Yes."}));
  EXPECT_EQ(split_sentences("Well... Good."), (Sentences{"Well...", "Good."}));
  EXPECT_EQ(split_sentences(""), Sentences{});
  EXPECT_EQ(split_sentences(" \n\t "), Sentences{});
  EXPECT_EQ(split_sentences("..."), Sentences{"..."});
}

TEST(Sentences, KeepAbbreviationsInitialsAndNumbersWhole) {
  EXPECT_EQ(split_sentences("Mr. Smith met Dr. Jones. They left."),
            (Sentences{"Mr. Smith met Dr. Jones.", "They left."}));
  EXPECT_EQ(split_sentences("J. R. Carter wrote it, e.g. The Hill. Fine."),
            (Sentences{"J. R. Carter wrote it, e.g. The Hill.", "Fine."}));
  EXPECT_EQ(split_sentences("He moved to the U.S. Army in 1940. It cost 3.50 then."),
            (Sentences{"He moved to the U.S. Army in 1940.", "It cost 3.50 then."}));
  EXPECT_EQ(split_sentences("So did I. We left."), (Sentences{"So did I.", "We left."}));
  EXPECT_EQ(split_sentences("see foo.bar and a.b.c now"), Sentences{"see foo.bar and a.b.c now"});
}

TEST(Sentences, TakeTheirQuotesWithThem) {
  EXPECT_EQ(split_sentences("“Stop!” he said. (It rained.) She left."),
            (Sentences{"“Stop!” he said.", "(It rained.)", "She left."}));
  EXPECT_EQ(split_sentences("He said \"no.\" \"Why?\" she asked."),
            (Sentences{"He said \"no.\"", "\"Why?\" she asked."}));
}

TEST(Sentences, OfTextInSmallLettersOrTakenApart) {
  EXPECT_EQ(split_sentences("i loved it. great acting! would see it again"),
            (Sentences{"i loved it.", "great acting!", "would see it again"}));
  EXPECT_EQ(split_sentences("The plot is thin . but mr . Reed is great !  i liked it"),
            (Sentences{"The plot is thin .", "but mr . Reed is great !", "i liked it"}));
  EXPECT_EQ(split_sentences("mr. reed is fine. so is d. bell"),
            (Sentences{"mr. reed is fine.", "so is d. bell"}));
}

TEST(Sentences, OfScriptsWithoutSpaces) {
  EXPECT_EQ(split_sentences("これは良い。とても！「本当？」はい。"),
            (Sentences{"これは良い。", "とても！", "「本当？」", "はい。"}));
}

TEST(Lowercase, KnowsLettersBeyondAscii) {
  EXPECT_EQ(lowercase("ÉCOLE Straße ΑΘΗΝΑ 123"), "école straße αθηνα 123");
  EXPECT_EQ(lowercase("A\xFF"), "a\uFFFD");
  EXPECT_TRUE(is_upper(U'É') && !is_upper(U'é') && is_lower(U'é') && !is_lower(U'日'));
}

}  // namespace
}  // namespace fovea::text
