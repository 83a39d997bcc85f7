#include <gtest/gtest.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <set>

#include "fovea/error.h"
#include "fovea/text.h"
#include "io/files.h"
#include "text/subwords.h"
#include "text/vocabulary.h"

namespace fovea::text {
namespace {

using Ids = std::vector<int64_t>;
using Texts = std::vector<std::string>;

Texts sample_lines() {
  return {"The ferry leaves at 10:30, but the bridge is open all night.",
          "She paid $1,000.50 for a second-hand piano; nobody could tune it.",
          "He said, \"I don't know,\" and closed the door.",
          "Qu'est-ce que tu penses de l'hiver à Besançon\u00A0?",
          "« Il pleut encore », dit-elle en fermant la fenêtre.",
          "Die Brücke über den Fluß wurde erst 1.200 Tage später geöffnet.",
          "Зачем ты купил столько свечей? — спросила она.",
          "昨日は雨が降ったので、家で本を読みました。",
          "这座桥建于1932年，长约1,200米。",
          "القطة تنام على السطح، والكلب يحرس الباب.",
          "החתול ישן על הגג והכלב שומר.",
          "Tonight 🎉 we dance 💃🏽, tomorrow 👩‍👩‍👧 sleep!",
          "E\u0301cole, cafe\u0301 and nai\u0308ve."};
}

constexpr Unit kAll[] = {Unit::characters, Unit::words, Unit::subwords};

class EachUnit : public testing::TestWithParam<Unit> {
 protected:
  static Tokenizer trained(int64_t size = 2000, int64_t min_count = 1) {
    return Tokenizer::train({GetParam(), size, min_count}, sample_lines());
  }
};
INSTANTIATE_TEST_SUITE_P(Tokenizer, EachUnit, testing::ValuesIn(kAll),
                         [](const auto& one) { return name_of(one.param); });

TEST_P(EachUnit, LinesComeBack) {
  const Tokenizer tokenizer = trained();
  EXPECT_EQ(tokenizer.unit(), GetParam());
  for (const std::string& line : sample_lines()) {
    const Ids ids = tokenizer.encode(line);
    EXPECT_EQ(tokenizer.decode(ids), line);
    const Texts pieces = tokenizer.pieces(line);
    ASSERT_EQ(pieces.size(), ids.size());
    EXPECT_EQ(tokenizer.join(pieces), line);
    for (const int64_t id : ids) {
      EXPECT_GE(id, kFirst);
      EXPECT_LT(id, tokenizer.size());
      EXPECT_EQ(tokenizer.token(id).find(' '), std::string::npos);
    }
  }
  EXPECT_EQ(tokenizer.encode(""), Ids{});
  EXPECT_EQ(tokenizer.decode(Ids{}), "");
}

TEST_P(EachUnit, SavedAndLoadedIsTheSame) {
  const test::Folder folder;
  const Tokenizer tokenizer = trained();
  tokenizer.save(folder / "tokenizer.json");
  EXPECT_EQ(folder.files(), 1);
  const Tokenizer loaded = Tokenizer::load(folder / "tokenizer.json");
  EXPECT_EQ(loaded.unit(), tokenizer.unit());
  ASSERT_EQ(loaded.size(), tokenizer.size());
  for (int64_t id = 0; id < tokenizer.size(); ++id)
    EXPECT_EQ(loaded.token(id), tokenizer.token(id));
  for (const std::string& line : sample_lines()) {
    EXPECT_EQ(loaded.encode(line), tokenizer.encode(line));
    EXPECT_EQ(loaded.encode(line + " xyz Ωψ"), tokenizer.encode(line + " xyz Ωψ"));
  }
  loaded.save(folder / "again.json");
  EXPECT_EQ(test::read_bytes(folder / "again.json"), test::read_bytes(folder / "tokenizer.json"));
}

TEST_P(EachUnit, TrainingIsDeterministicAndSilent) {
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  const Tokenizer a = trained(300), b = trained(300);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  ASSERT_EQ(a.size(), b.size());
  for (int64_t id = 0; id < a.size(); ++id) EXPECT_EQ(a.token(id), b.token(id));
}

TEST_P(EachUnit, WhatWasNotSeenIsUnknown) {
  const Tokenizer tokenizer = trained();
  const std::string text = "The ΩΨ door";
  const Ids ids = tokenizer.encode(text);
  const Texts pieces = tokenizer.pieces(text);
  ASSERT_EQ(ids.size(), pieces.size());
  std::string unknown;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == kUnknown) unknown += pieces[i];
  }
  EXPECT_EQ(unknown, "ΩΨ");
  EXPECT_EQ(tokenizer.join(pieces), text);  // what an unknown one was
  EXPECT_EQ(tokenizer.decode(ids), GetParam() == Unit::characters ? "The ⁇⁇ door" : "The ⁇ door");
}

TEST_P(EachUnit, SpecialIdsAreLeftOut) {
  const Tokenizer tokenizer = trained();
  Ids ids = {kBegin};
  for (const int64_t id : tokenizer.encode("the door")) ids.push_back(id);
  ids.insert(ids.end(), {kEnd, kPad, kPad});
  EXPECT_EQ(tokenizer.decode(ids), "the door");
  const std::set<std::string> names = {tokenizer.token(kPad), tokenizer.token(kUnknown),
                                       tokenizer.token(kBegin), tokenizer.token(kEnd)};
  EXPECT_EQ(names.size(), 4u);
  EXPECT_THROW(tokenizer.decode(Ids{-1}), Error);
  EXPECT_THROW(tokenizer.decode(Ids{tokenizer.size()}), Error);
  EXPECT_THROW(tokenizer.token(-1), Error);
  EXPECT_THROW(tokenizer.token(tokenizer.size()), Error);
}

TEST_P(EachUnit, InvalidUtf8IsReplaced) {
  const Texts lines = {"abc\xFF", "abc\xFF", "d\xC3"};
  const Tokenizer tokenizer = Tokenizer::train({GetParam(), 100, 1}, lines);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("abc\xFF")), "abc\uFFFD");
  EXPECT_EQ(tokenizer.encode("abc\xFF"), tokenizer.encode("abc\uFFFD"));
}

TEST_P(EachUnit, TheSizeIsAtMostWhatWasAsked) {
  for (const int64_t size : {6, 20, 50, 100, 150, 400, 5000}) {
    const Tokenizer tokenizer = trained(size);
    EXPECT_LE(tokenizer.size(), size);
    EXPECT_GT(tokenizer.size(), kFirst);
    for (const std::string& line : sample_lines()) {
      EXPECT_EQ(tokenizer.encode(line).size(), tokenizer.pieces(line).size());
      EXPECT_EQ(tokenizer.join(tokenizer.pieces(line)), line);
    }
  }
}

TEST_P(EachUnit, RareOnesAreUnknown) {
  const Texts lines = {"a a a b", "a b c", "a"};
  const Tokenizer tokenizer = Tokenizer::train({GetParam(), 100, 2}, lines);
  for (const int64_t id : tokenizer.encode("a b")) EXPECT_NE(id, kUnknown);
  EXPECT_EQ(tokenizer.encode("c").back(), kUnknown);
}

TEST_P(EachUnit, RefusesWhatCannotBeTrained) {
  const Texts lines = {"a b"}, empty = {"", ""};
  const auto train = [](const Texts& from, int64_t size, int64_t min_count) {
    return Tokenizer::train({GetParam(), size, min_count}, from);
  };
  EXPECT_THROW(train(lines, kFirst, 1), Error);
  EXPECT_THROW(train(lines, -5, 1), Error);
  EXPECT_THROW(train(lines, kMaxVocabulary + 1, 1), Error);
  EXPECT_THROW(train(lines, 100, 0), Error);
  EXPECT_THROW(train(lines, 100, 50), Error);
  EXPECT_THROW(train(empty, 100, 1), Error);
  EXPECT_THROW(train({}, 100, 1), Error);
}

TEST_P(EachUnit, AWordOfAMegabyte) {
  Texts lines = sample_lines();
  lines.emplace_back(900'000, 'x');
  const Tokenizer tokenizer = Tokenizer::train({GetParam(), 300, 1}, lines);
  EXPECT_EQ(tokenizer.join(tokenizer.pieces(lines.back())), lines.back());
}

TEST(Tokenizer, UnitsHaveNames) {
  for (const Unit one : kAll) EXPECT_EQ(unit(name_of(one)), one);
  EXPECT_THROW(unit("letters"), Error);
}

TEST(Tokenizer, NotYetTrained) { EXPECT_THROW(Tokenizer().encode("a"), Error); }

TEST(Tokenizer, FrequentTokensComeFirst) {
  const Tokenizer tokenizer = Tokenizer::train({Unit::words, 7, 1}, Texts{"b a c a c a b d"});
  EXPECT_EQ(tokenizer.size(), 7);
  EXPECT_EQ(tokenizer.encode("a b c d"), (Ids{4, 5, 6, kUnknown}));
}

TEST(Tokenizer, TokensAreShownToPeople) {
  const Tokenizer tokenizer = Tokenizer::train({Unit::characters, 50, 1}, Texts{" \t\u00A0x\x7F▁"});
  const auto shown = [&](const char* text) {
    return tokenizer.token(tokenizer.encode(text).at(0));
  };
  EXPECT_EQ(shown(" "), "␣");
  EXPECT_EQ(shown("\t"), "␉");
  EXPECT_EQ(shown("\u00A0"), "␣");
  EXPECT_EQ(shown("\x7F"), "␡");
  EXPECT_EQ(shown("x"), "x");
}

// ---- Subwords -----------------------------------------------------------------------------------

class LineIterator : public sentencepiece::SentenceIterator {
 public:
  explicit LineIterator(Texts lines) : lines_(std::move(lines)) {}
  bool done() const override { return at_ == lines_.size(); }
  void Next() override { ++at_; }
  const std::string& value() const override { return lines_[at_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  Texts lines_;
  size_t at_ = 0;
};

// The ids are those that SentencePiece itself gives.
TEST(Subwords, EncodeAsSentencePieceDoes) {
  Texts lines = sample_lines();
  for (int i = 0; i < 4; ++i) lines.push_back(lines[0] + " " + lines[static_cast<size_t>(i)]);
  LineIterator iterator(lines);
  std::string model;
  ASSERT_TRUE(
      sentencepiece::SentencePieceTrainer::Train(
          std::unordered_map<std::string, std::string>{{"model_type", "bpe"},
                                                       {"vocab_size", "300"},
                                                       {"character_coverage", "1.0"},
                                                       {"normalization_rule_name", "identity"},
                                                       {"pad_id", "0"},
                                                       {"unk_id", "1"},
                                                       {"bos_id", "2"},
                                                       {"eos_id", "3"},
                                                       {"minloglevel", "3"}},
          &iterator, &model)
          .ok());
  sentencepiece::SentencePieceProcessor theirs;
  ASSERT_TRUE(theirs.LoadFromSerializedProto(model).ok());

  const Tokenizer ours = Tokenizer::train({Unit::subwords, 300, 1}, lines);
  ASSERT_EQ(ours.size(), 300);
  Texts texts = lines;
  texts.insert(texts.end(), {"", " ", "the  bridge \t of ΩΨ nights", "aaaaaaaa", "brbrbridgege",
                             "ΩΨ Ω", "fermant fermant", "12,000.50", "thethethe"});
  for (const std::string& text : texts) {
    std::string spaces_only = text;
    std::replace(spaces_only.begin(), spaces_only.end(), '\t', ' ');
    const std::vector<int> expected = theirs.EncodeAsIds(spaces_only);
    EXPECT_EQ(ours.encode(text), Ids(expected.begin(), expected.end())) << text;
    EXPECT_EQ(ours.pieces(text), theirs.EncodeAsPieces(spaces_only)) << text;
  }
}

TEST(Subwords, OfEqualMergesTheLeftmostComesFirst) {
  const Vocabulary vocabulary(Unit::subwords, {"aa", "aab", "a", "b", "▁"});
  EXPECT_EQ(split_subwords(vocabulary, "aaa"), (Texts{"▁", "aa", "a"}));
  EXPECT_EQ(split_subwords(vocabulary, "aaaab aab"), (Texts{"▁", "aa", "aab", "▁", "aab"}));
}

TEST(Subwords, SpacesBecomeOne) {
  const Tokenizer tokenizer = Tokenizer::train({Unit::subwords, 100, 1}, Texts{"one two"});
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("  one \n two ")), "one two");
}

TEST(Subwords, MergesAreLearned) {
  const Tokenizer tokenizer = Tokenizer::train({Unit::subwords, 100, 1}, sample_lines());
  const Tokenizer characters = Tokenizer::train({Unit::subwords, 2000, 1}, sample_lines());
  EXPECT_LT(characters.encode(sample_lines()[0]).size(), sample_lines()[0].size() / 2);
  EXPECT_GT(tokenizer.encode(sample_lines()[0]).size(),
            characters.encode(sample_lines()[0]).size());
}

// SentencePiece keeps ▁ for the space, and skips lines with ▅.
TEST(Subwords, ItsOwnMarksInTheText) {
  const Tokenizer tokenizer = Tokenizer::train({Unit::subwords, 100, 1}, Texts{"a▅b c▁d"});
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("a b c d")), "a b c d");
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("a▅b")), "a⁇b");
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("c▁d")), "c d");
}

}  // namespace
}  // namespace fovea::text
