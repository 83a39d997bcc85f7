#include "tokens/tokenizer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "errors.h"
#include "io/files.h"

namespace fovea::tokens {
namespace {

using Json = nlohmann::ordered_json;
using test::error_of;
using test::has;

Json small_bpe() {
  return {{"added_tokens", Json::array()},
          {"model",
           {{"type", "BPE"},
            {"unk_token", "?"},
            {"vocab", {{"?", 0}, {"a", 1}, {"b", 2}, {"ab", 3}, {"aa", 4}, {"aaaa", 5}}},
            {"merges", {"a b", "a a", "aa aa"}}}}};
}

std::string error_in(const Json& json) {
  return error_of([&] { parse_tokenizer(json.dump()); });
}

std::vector<int64_t> ids_in(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<int64_t> ids;
  for (const Token& token : tokenizer.encode(text)) ids.push_back(token.id);
  return ids;
}

using Place = std::pair<size_t, size_t>;
Place place_of(const Token& token) { return {token.begin, token.end}; }

TEST(Tokenizer, JoinsTheEarliestMergeFirst) {
  const Tokenizer tokenizer = parse_tokenizer(small_bpe().dump());
  EXPECT_EQ(ids_in(tokenizer, "aab"), (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(ids_in(tokenizer, "aaaaax"), (std::vector<int64_t>{5, 1, 0}));
  EXPECT_EQ(tokenizer.about(), "BPE, 6 tokens");
  EXPECT_EQ(tokenizer.id("ab"), 3);
  EXPECT_FALSE(tokenizer.id("abc"));
}

TEST(Tokenizer, IdsMayHaveHolesAndModelsMoreRows) {
  Json json = small_bpe();
  json["model"]["vocab"]["z"] = 90;
  const Tokenizer tokenizer = parse_tokenizer(json.dump());
  EXPECT_EQ(tokenizer.size(), 91);
  EXPECT_EQ(tokenizer.piece(50), "");
  EXPECT_EQ(tokenizer.piece(1'000'000), "");
  EXPECT_EQ(tokenizer.piece(-1), "");
  EXPECT_EQ(tokenizer.decode(std::vector<int64_t>{1, 50, 7'000'000, -3, 90}), "a z");
  EXPECT_FALSE(tokenizer.special(50));
}

TEST(Tokenizer, WhatLiesIsRefused) {
  Json twice = small_bpe();
  twice["model"]["vocab"]["c"] = 2;
  EXPECT_TRUE(has(error_in(twice), "id 2 is there twice, for 'b' and 'c'")) << error_in(twice);
  EXPECT_TRUE(has(error_of([] {
                    parse_tokenizer(
                        R"({"model": {"type": "BPE", "vocab": {"a": 0, "a": 1}, "merges": []}})");
                  }),
                  "'a' is there twice"));
  Json merge = small_bpe();
  merge["model"]["merges"].push_back("a c");
  EXPECT_TRUE(has(error_in(merge), "a merge has 'c', which the vocabulary has not"));
  merge["model"]["merges"].back() = "b b";
  EXPECT_TRUE(has(error_in(merge), "a merge has 'bb'"));
  Json huge = small_bpe();
  huge["model"]["vocab"]["c"] = 4'000'000'000;
  EXPECT_TRUE(has(error_in(huge), "has the id 4000000000, expected 0 to"));
  huge["model"]["vocab"]["c"] = -1;
  EXPECT_TRUE(has(error_in(huge), "has the id -1"));
  huge["model"]["vocab"]["c"] = "one";
  EXPECT_TRUE(has(error_in(huge), "no whole number for an id"));
  Json added = small_bpe();
  added["added_tokens"].push_back({{"id", 9}, {"content", "<new>"}});
  EXPECT_TRUE(has(error_in(added), "'<new>' has the id 9, but its place is 6"));
  added["added_tokens"][0] = {{"id", 2}, {"content", "a"}};
  EXPECT_TRUE(has(error_in(added), "'a' has the id 2, but its place is 1"));
}

TEST(Tokenizer, WhatIsAddedIsAToken) {
  Json json = small_bpe();
  json["post_processor"] = {{"type", "BertProcessing"}, {"sep", {"b", 2}}, {"cls", {"x", 60}}};
  EXPECT_TRUE(has(error_in(json), "it adds id 60, which is no token"));
  json["post_processor"]["cls"] = {"a", 1};
  EXPECT_EQ(ids_in(parse_tokenizer(json.dump()), "b"), (std::vector<int64_t>{1, 2, 2}));
}

TEST(Tokenizer, WhatIsUnknownIsRefusedByItsName) {
  const auto with = [](const char* name, const Json& part) {
    Json json = small_bpe();
    json[name] = part;
    return error_in(json);
  };
  EXPECT_TRUE(has(with("normalizer", {{"type", "Nmt"}}), "normalizer 'Nmt' is not known here"));
  EXPECT_TRUE(has(with("pre_tokenizer", {{"type", "UnicodeScripts"}}), "'UnicodeScripts'"));
  EXPECT_TRUE(has(with("post_processor", {{"type", "X"}}), "post_processor 'X'"));
  EXPECT_TRUE(has(with("decoder", {{"type", "CTC"}}), "decoder 'CTC'"));
  EXPECT_TRUE(has(with("decoder", "CTC"), "decoder: expected an object"));
  EXPECT_TRUE(
      has(with("pre_tokenizer",
               {{"type", "Split"}, {"pattern", {{"Regex", "\\d+|x"}}}, {"behavior", "Isolated"}}),
          "its pattern is not known here: \\d+|x"));
  EXPECT_TRUE(has(with("normalizer", {{"type", "Prepend"}}), "\"prepend\" is missing"));
  EXPECT_TRUE(has(with("normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "AAAA"}}),
                  "cut off"));
  Json dropout = small_bpe();
  dropout["model"]["dropout"] = 0.1;
  EXPECT_TRUE(has(error_in(dropout), "dropout"));
  Json kind = small_bpe();
  kind["model"]["type"] = "WordLevel";
  EXPECT_TRUE(has(error_in(kind), "model 'WordLevel' is not known here"));
  EXPECT_TRUE(has(error_of([] { parse_tokenizer("{}"); }), "has no \"model\""));
  EXPECT_TRUE(has(error_of([] { parse_tokenizer(std::string(100000, '[')); }), "nested"));
}

TEST(Tokenizer, BrokenUtf8CountsAsReplacementCharacters) {
  Json json = small_bpe();
  json["model"]["vocab"]["\xEF\xBF\xBD"] = 6;
  const Tokenizer tokenizer = parse_tokenizer(json.dump());
  const std::vector<Token> tokens = tokenizer.encode(
      "a\xFF\xE2\x82"
      "b");
  ASSERT_EQ(tokens.size(), 4u);
  EXPECT_EQ(tokens[1].id, 6);
  EXPECT_EQ(place_of(tokens[1]), (Place{1, 2}));
  EXPECT_EQ(place_of(tokens[2]), (Place{2, 4}));
  EXPECT_EQ(place_of(tokens[3]), (Place{4, 5}));
}

TEST(Tokenizer, AMillionOfOneLetterTakesLinearTime) {
  const auto seconds = [](const Tokenizer& tokenizer, size_t n) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_GT(tokenizer.encode(std::string(n, 'a')).size(), 0u);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const Json unigram = {
      {"model",
       {{"type", "Unigram"},
        {"unk_id", 0},
        {"vocab", Json::parse(R"([["?", 0], ["a", -1], ["aa", -1.5], ["aaaa", -2]])")}}}};
  const Json word_piece = {{"model",
                            {{"type", "WordPiece"},
                             {"unk_token", "?"},
                             {"continuing_subword_prefix", "##"},
                             {"max_input_chars_per_word", 10'000'000},
                             {"vocab", {{"?", 0}, {"a", 1}, {"##a", 2}, {"##aaa", 3}}}}}};
  for (const Json& json : {small_bpe(), unigram, word_piece}) {
    const Tokenizer tokenizer = parse_tokenizer(json.dump());
    seconds(tokenizer, 10'000);
    const double small = seconds(tokenizer, 30'000), large = seconds(tokenizer, 1'000'000);
    EXPECT_LT(large, 33 * 8 * (small + 0.002)) << json["model"]["type"];
    EXPECT_LT(large, 20);
  }
}

TEST(Tokenizer, ShowsPiecesToPeople) {
  const Tokenizer tokenizer = parse_tokenizer(small_bpe().dump());
  EXPECT_EQ(tokenizer.shown(3), "ab");
  Json json = small_bpe();
  json["model"]["vocab"]["\xE2\x96\x81the"] = 6;
  json["model"]["vocab"]["\n"] = 7;
  const Tokenizer marks = parse_tokenizer(json.dump());
  EXPECT_EQ(marks.shown(6), " the");
  EXPECT_EQ(marks.shown(7), "\\n");
}

TEST(OpenTokenizer, SaysWhatAFolderLacks) {
  const test::Folder folder;
  EXPECT_TRUE(has(error_of([&] { open_tokenizer(folder / "none"); }), "is no folder of a model"));
  EXPECT_TRUE(has(error_of([&] { open_tokenizer(folder / "."); }), "has no tokenizer: expected"));
  test::write_bytes(folder / "vocab.json", "{}");
  test::write_bytes(folder / "merges.txt", "#version: 0.2\n");
  EXPECT_TRUE(has(error_of([&] { open_tokenizer(folder / "."); }), "names it"));
  test::write_bytes(folder / "config.json", R"({"model_type": "codegen"})");
  EXPECT_TRUE(has(error_of([&] { open_tokenizer(folder / "."); }), "'codegen'"));
  test::write_bytes(folder / "spiece.model", "no model");
}

TEST(OpenTokenizer, ReadsVocabTxtAsBertsFilesAre) {
  const test::Folder folder;
  test::write_bytes(folder / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\neye\n##s\nthe\r\n");
  const Tokenizer tokenizer = open_tokenizer(folder / ".");
  EXPECT_EQ(ids_in(tokenizer, "The EYES [MASK] x"), (std::vector<int64_t>{2, 7, 5, 6, 4, 1, 3}));
  EXPECT_EQ(tokenizer.decode(ids_in(tokenizer, "The eyes")), "the eyes");
  test::write_bytes(folder / "tokenizer_config.json",
                    R"({"do_lower_case": false, "mask_token": "[MASK]"})");
  EXPECT_EQ(ids_in(open_tokenizer(folder / "."), "The eyes"),
            (std::vector<int64_t>{2, 1, 5, 6, 3}));
  EXPECT_EQ(open_tokenizer(folder / ".").special_ids().mask, 4);
}

}  // namespace
}  // namespace fovea::tokens
