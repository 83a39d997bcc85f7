// Small tokenizers of every kind, and what the package they were made with says of some texts, and
// of every code point of two planes.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "io/json.h"
#include "reduced.h"
#include "tokens/characters.h"
#include "tokens/tokenizer.h"
#include "where.h"

namespace fovea::tokens {
namespace {

using Json = nlohmann::ordered_json;

std::filesystem::path golden() { return test::source_dir() + "/tests/tokens/golden"; }

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator(golden())) {
    if (std::filesystem::exists(entry.path() / "tokenizer.json")) {
      all.push_back(entry.path().filename().string());
    }
  }
  return all;
}

std::vector<int64_t> ids_of(const std::vector<Token>& tokens) {
  std::vector<int64_t> ids;
  for (const Token& token : tokens) ids.push_back(token.id);
  return ids;
}

void check_case(const Tokenizer& tokenizer, const Json& wanted) {
  const auto text = wanted["text"].get<std::string>();
  const std::vector<Token> tokens =
      wanted.contains("pair") ? tokenizer.encode_pair(text, wanted["pair"].get<std::string>())
                              : tokenizer.encode(text);
  const std::vector<int64_t> ids = ids_of(tokens);
  EXPECT_EQ(ids, wanted["ids"].get<std::vector<int64_t>>());
  EXPECT_EQ(tokenizer.decode(ids), wanted["decoded"].get<std::string>());
  EXPECT_EQ(tokenizer.decode(ids, KeptTokens::all), wanted["decoded_whole"].get<std::string>());
  Json places = Json::array(), types = Json::array();
  for (const Token& token : tokens) {
    places.push_back({token.begin, token.end});
    types.push_back(token.type);
  }
  if (wanted.contains("offsets")) {
    EXPECT_EQ(places, wanted["offsets"]);
  }
  EXPECT_EQ(types, wanted.contains("types") ? wanted["types"] : Json(std::vector<int>(ids.size())));
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, TextsAreCutAsTheReferenceCutsThem) {
  const Tokenizer tokenizer = open_tokenizer(golden() / GetParam());
  const Json wanted = read_json(golden() / GetParam() / "cases.json");
  ASSERT_GT(wanted["cases"].size(), 20u);
  for (const Json& one : wanted["cases"]) {
    SCOPED_TRACE(one["text"].dump());
    check_case(tokenizer, one);
  }
}

// FNV-1a over ids and places.
class Sum {
 public:
  void add(size_t number) {
    for (int i = 0; i < 4; ++i) value_ = (value_ ^ (number >> 8 * i & 0xFF)) * 0x100000001B3u;
  }
  std::string text() const {
    char hex[17];
    std::snprintf(hex, sizeof hex, "%016llx", static_cast<unsigned long long>(value_));
    return hex;
  }

 private:
  uint64_t value_ = 0xCBF29CE484222325u;
};

std::string next_block(char32_t& code) {
  std::string text;
  for (int i = 0; i < 256; ++i, ++code) {
    if (code == 0xD800) code = 0xE000;
    if (i > 0) text += ' ';
    append_utf8(text, code);
  }
  return text;
}

TEST_P(Golden, EveryCodePointOfTwoPlanesIsCutAsTheReferenceCutsIt) {
  const Tokenizer tokenizer = open_tokenizer(golden() / GetParam());
  const Json wanted = read_json(golden() / GetParam() / "cases.json")["sums"];
  Sum sum;
  char32_t code = 0;
  for (int block = 0; block < 504; ++block) {
    if (block == 32) {
      EXPECT_EQ(sum.text(), wanted[0].get<std::string>());
      if (test::reduced()) return;
    }
    for (const Token& token : tokenizer.encode(next_block(code))) {
      sum.add(static_cast<size_t>(token.id)), sum.add(token.begin), sum.add(token.end);
    }
  }
  EXPECT_EQ(sum.text(), wanted[1].get<std::string>());
}

INSTANTIATE_TEST_SUITE_P(Kinds, Golden, testing::ValuesIn(names()),
                         [](const auto& kind) { return kind.param; });

TEST(Marian, HasTwoSidesWithOneVocabulary) {
  const Tokenizer source = open_tokenizer(golden() / "marian");
  const Tokenizer target = open_target_tokenizer(golden() / "marian");
  const Json cases = read_json(golden() / "marian" / "cases.json");
  for (const Json& one : cases["cases"]) {
    SCOPED_TRACE(one["text"].dump());
    const auto text = one["text"].get<std::string>();
    EXPECT_EQ(ids_of(source.encode(text)), one["ids"].get<std::vector<int64_t>>());
    EXPECT_EQ(ids_of(target.encode(text)), one["target_ids"].get<std::vector<int64_t>>());
  }
  EXPECT_EQ(target.decode(ids_of(target.encode("the eye looks at words"))),
            "the eye looks at words");
  EXPECT_TRUE(source.special_ids().end && source.special_ids().pad);
}

}  // namespace
}  // namespace fovea::tokens
