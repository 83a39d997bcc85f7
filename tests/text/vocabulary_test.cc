// What a tokenizer file may get wrong: each is an Error with one clear line.
#include "text/vocabulary.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "fovea/error.h"
#include "io/files.h"

namespace fovea::text {
namespace {

std::string words(const std::string& tokens) {
  return R"({"unit":"words","tokens":)" + tokens + "}";
}

std::string numbers(int64_t n) {
  std::string list = "[\"0\"";
  for (int64_t i = 1; i < n; ++i) list += fmt::format(",\"{}\"", i);
  return list + "]";
}

struct Case {
  std::string name, json, says;
  int64_t tokens = 0;  // so many instead, written only where they are read
  std::string text() const { return tokens > 0 ? words(numbers(tokens)) : json; }
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<Case> cases() {
  return {
      {"Empty", "", "not valid JSON"},
      {"Cut", R"({"unit":"words","tokens":["a")", "not valid JSON"},
      {"Garbage", "tokens", "not valid JSON"},
      {"TextAfter", words("[\"a\"]") + "x", "not valid JSON"},
      {"ZeroByte", std::string("\0", 1), "not valid JSON"},
      {"NotUtf8", words("[\"\xFF\"]"), "not valid JSON"},
      {"LoneSurrogate", words("[\"\\ud800\"]"), "not valid JSON"},
      {"AList", "[]", "must be a JSON object, found a list"},
      {"AString", "\"words\"", "must be a JSON object, found a string"},
      {"NoFields", "{}", "'unit' is missing"},
      {"NoTokens", R"({"unit":"words"})", "'tokens' is missing"},
      {"NoUnit", R"({"tokens":["a"]})", "'unit' is missing"},
      {"UnknownUnit", R"({"unit":"letters","tokens":["a"]})", "found 'letters'"},
      {"UnitANumber", R"({"unit":1,"tokens":["a"]})", "'unit' must be a string, found 1"},
      {"UnitAList", R"({"unit":["words"],"tokens":["a"]})", "'unit' must be a string"},
      {"UnknownField", R"({"unit":"words","tokens":["a"],"ids":[-1]})", "unknown field 'ids'"},
      {"UnitTwice", R"({"unit":"words","unit":"words","tokens":["a"]})", "appears twice"},
      {"TokensTwice", R"({"unit":"words","tokens":["a"],"tokens":["b"]})", "appears twice"},
      {"TokensEmpty", words("[]"), "no tokens"},
      {"TokensAString", words("\"a\""), "'tokens' must be a list of strings, found a string"},
      {"TokensNull", words("null"), "found null"},
      {"NegativeIdOfAToken", words(R"({"a":-1})"), "must be a list of strings, found an object"},
      {"NegativeIdInTheList", words(R"(["a",-1])"), "token 1 must be a string, found -1"},
      {"NegativeIdInAnObject", words(R"(["a",{"b":-2147483648}])"), "found an object"},
      {"NegativeIdInAPair", words(R"([["a",-1]])"), "found a list"},
      {"IdThatWraps", words("[18446744073709551615]"), "found 18446744073709551615"},
      {"AFraction", words("[0.5]"), "found a number"},
      {"ABoolean", words("[true]"), "found a boolean"},
      {"ANull", words("[null]"), "found null"},
      {"EmptyToken", words(R"(["a",""])"), "token 1 is empty"},
      {"SameTokenTwice", words(R"(["a","b","a"])"), "'a' appears twice"},
      {"SameTokenEscaped", words(R"(["a","\u0061"])"), "'a' appears twice"},
      {"LongToken", words("[\"" + std::string(1001, 'a') + "\"]"), "1001 bytes"},
      {"TwoCharacters", R"({"unit":"characters","tokens":["ab"]})", "expected one character"},
      {"TooMany", "", "more than 999996 tokens", kMaxVocabulary},
      {"DeepLists", words(std::string(1'000'000, '[')), "found a list"},
      {"DeepObjects", "{\"unit\":" + std::string(100'000, '{'), "'unit' must be a string"},
      {"ControlCharacters", words(R"(["\u001b[31m\n","\u001b[31m\n"])"), "'?[31m?' appears twice"},
  };
}

class VocabularyReject : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Vocabulary, VocabularyReject, testing::ValuesIn(cases()),
                         [](const auto& one) { return one.param.name; });

TEST_P(VocabularyReject, WithOneClearLine) {
  try {
    parse_vocabulary(GetParam().text());
    FAIL() << "accepted";
  } catch (const Error& error) {
    const std::string line = error.what();
    EXPECT_NE(line.find(GetParam().says), std::string::npos) << line;
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    EXPECT_LT(line.size(), 300u) << line;
  }
}

TEST_P(VocabularyReject, FromAFileNamingIt) {
  const test::Folder folder;
  test::write_bytes(folder / "bad.json", GetParam().text());
  try {
    Tokenizer::load(folder / "bad.json");
    FAIL() << "accepted";
  } catch (const Error& error) {
    const std::string line = error.what();
    EXPECT_NE(line.find("bad.json: "), std::string::npos) << line;
    EXPECT_NE(line.find(GetParam().says), std::string::npos) << line;
  }
}

TEST(Vocabulary, IdsStartAfterTheSpecialOnes) {
  const Vocabulary vocabulary = parse_vocabulary(words(R"(["a","é","\u65e5"])"));
  EXPECT_EQ(vocabulary.unit(), Unit::words);
  EXPECT_EQ(vocabulary.size(), 7);
  EXPECT_EQ(vocabulary.id("a"), kFirst);
  EXPECT_EQ(vocabulary.id("日"), kFirst + 2);
  EXPECT_EQ(vocabulary.id("b"), kUnknown);
  EXPECT_EQ(vocabulary.token(kFirst + 1), "é");
}

TEST(Vocabulary, EveryCutAndEveryFlipLoadsOrIsRefused) {
  const std::string good = words(R"(["a","\u00e9","日本","c d"])");
  const auto loads_or_throws = [](const std::string& json) {
    try {
      const Vocabulary vocabulary = parse_vocabulary(json);
      EXPECT_EQ(parse_vocabulary(vocabulary.json()).json(), vocabulary.json());
    } catch (const Error&) {
    }
  };
  for (size_t i = 0; i < good.size(); ++i) {
    EXPECT_THROW(parse_vocabulary(good.substr(0, i)), Error);
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = good;
      flipped[i] = static_cast<char>(flipped[i] ^ 1 << bit);
      loads_or_throws(flipped);
    }
  }
}

TEST(Vocabulary, WhatIsNoFile) {
  const test::Folder folder;
  EXPECT_THROW(Tokenizer::load(folder / "absent"), Error);
  EXPECT_THROW(Tokenizer::load(folder / "."), Error);
  EXPECT_THROW(Tokenizer::load("/dev/zero"), Error);
  const std::filesystem::path pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THROW(Tokenizer::load(pipe), Error);
  test::write_bytes(folder / "huge", "{");
  std::filesystem::resize_file(folder / "huge", uint64_t{1} << 40);
  EXPECT_THROW(Tokenizer::load(folder / "huge"), Error);
}

}  // namespace
}  // namespace fovea::text
