// Subwords of ours as the package tokenizers reads them. golden/subwords.json is by
// subwords_golden.py.
#include "tasks/lm/tokenizer_json.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/random.h"
#include "tasks/lm/lm.h"
#include "where.h"

namespace fovea::tasks::lm {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct GoldenSubwords {
  GoldenSubwords()
      : path(fs::temp_directory_path() / ("fovea-subwords-" + std::to_string(::getpid()))) {
    fs::create_directory(path);
    golden = json::parse(
        std::ifstream(fs::path(fovea::test::source_dir()) / "tests/tasks/golden/subwords.json"));
    std::ofstream(path / "own.vocab") << golden["vocabulary"].dump();
    own = text::Tokenizer::load(path / "own.vocab");
    std::ofstream(path / "tokenizer.json") << tokenizer_json(own).dump();
    theirs = tokens::open_tokenizer(path);
  }
  ~GoldenSubwords() { fs::remove_all(path); }
  std::vector<int64_t> ids(const std::string& text) const {
    std::vector<int64_t> all;
    for (const tokens::Token& t : theirs->encode(text)) all.push_back(t.id);
    return all;
  }
  fs::path path;
  json golden;
  text::Tokenizer own;
  std::optional<tokens::Tokenizer> theirs;
};

TEST(TokenizerJson, SubwordsHaveTheIdsOfTokenizers) {
  const GoldenSubwords g;
  EXPECT_EQ(json(tokenizer_json(g.own)), g.golden["tokenizer"]);
  for (size_t i = 0; i < g.golden["texts"].size(); ++i) {
    const std::string text = g.golden["texts"][i];
    const std::vector<int64_t> expected = g.golden["ids"][i];
    EXPECT_EQ(g.ids(text), expected) << text;
    EXPECT_EQ(json(g.theirs->decode(expected)), g.golden["decoded"][i]) << text;
    if (text.find('<') != text.npos) continue;  // special tokens are no text here
    EXPECT_EQ(encode_prompt(g.own, text), expected) << text;
  }
}

TEST(TokenizerJson, SubwordsOfMixesAreOurs) {
  const GoldenSubwords g;
  const std::vector<std::string> parts = {"a",  "b",  "e",   "=",    " ",   "\t", "\n",      "?",
                                          "aa", "ab", "the", "ship", "bab", "東", "château", "==="};
  const RandomKey key = random_key(3, Purpose::tensor);
  uint64_t drawn = 0;
  for (int n = 0; n < 3000; ++n) {
    std::string text;
    for (uint32_t k = bits32(key, drawn++) % 14; k-- > 0;) {
      text += parts[bits32(key, drawn++) % parts.size()];
    }
    ASSERT_EQ(encode_prompt(g.own, text), g.ids(text)) << text;
  }
}

}  // namespace
}  // namespace fovea::tasks::lm
