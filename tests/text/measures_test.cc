// BLEU and chrF against sacreBLEU's (make_golden.py), and the measures by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "fovea/error.h"
#include "fovea/text.h"
#include "where.h"

namespace fovea::text {
namespace {

using Texts = std::vector<std::string>;

std::string golden(const std::string& name) {
  return test::source_dir() + "/tests/text/golden/" + name;
}

nlohmann::json scores() { return nlohmann::json::parse(std::ifstream(golden("scores.json"))); }

// Hypothesis, reference and perhaps a second one. Hypotheses may be empty, which read_tsv()
// refuses.
std::vector<Texts> rows() {
  std::vector<Texts> all;
  for (const std::string& line : read_lines(golden("pairs.tsv"))) {
    Texts row(1);
    for (const char c : line) {
      if (c == '\t') {
        row.emplace_back();
      } else {
        row.back() += c;
      }
    }
    all.push_back(std::move(row));
  }
  return all;
}

constexpr double kTwoDecimals = 0.005;

TEST(Bleu, OfShorterNGramsCountsNoLongerOnes) {
  const std::vector<std::string> said = {"a red circle above a square"};
  const References meant = {{"a red square above a circle"}};
  EXPECT_NEAR(bleu_n(1, said, meant), 100.0, 1e-9);
  EXPECT_NEAR(bleu_n(2, said, meant), 100.0 * std::sqrt(2.0 / 5), 1e-9);  // "a red", "above a"
  EXPECT_EQ(bleu_n(4, said, meant), bleu(said, meant));
  EXPECT_THROW(bleu_n(5, said, meant), Error);
  EXPECT_THROW(bleu_n(0, said, meant), Error);
}

TEST(Golden, Pairs) {
  const std::vector<Texts> all = rows();
  ASSERT_EQ(all.size(), 200u);
  int compared = 0;
  const nlohmann::json expected = scores();
  for (const auto& subset : expected.at("subsets")) {
    const size_t first = subset.at("first"), count = subset.at("count");
    const size_t most = subset.at("references");
    Texts hypotheses;
    References references;
    for (size_t i = first; i < first + count; ++i) {
      hypotheses.push_back(all[i][0]);
      const size_t end = std::min(all[i].size(), 1 + most);
      references.emplace_back(all[i].begin() + 1, all[i].begin() + static_cast<long>(end));
    }
    EXPECT_NEAR(bleu(hypotheses, references), subset.at("bleu"), kTwoDecimals) << subset.dump();
    EXPECT_NEAR(chrf(hypotheses, references), subset.at("chrf"), kTwoDecimals) << subset.dump();
    ++compared;
  }
  EXPECT_GT(compared, 200);
}

TEST(Golden, Cases) {
  const nlohmann::json expected = scores();
  ASSERT_GT(expected.at("cases").size(), 10u);
  for (const auto& one : expected.at("cases")) {
    const Texts hypotheses = one.at("hypotheses");
    const References references = one.at("references");
    EXPECT_NEAR(bleu(hypotheses, references), one.at("bleu"), kTwoDecimals) << one.dump();
    EXPECT_NEAR(chrf(hypotheses, references), one.at("chrf"), kTwoDecimals) << one.dump();
  }
}

TEST(Bleu, ByHand) {
  EXPECT_DOUBLE_EQ(bleu(Texts{"a b c d e"}, {{"a b c d e"}}), 100);
  // p = 3/4, 2/3, 1/2, and none of one, which is smoothed to 1/2; five tokens were expected.
  const double expected = 100 * std::exp(1 - 5.0 / 4) * std::pow(3.0 / 4 * 2 / 3 * 1 / 2 / 2, 0.25);
  EXPECT_NEAR(bleu(Texts{"a b c x"}, {{"a b c d e"}}), expected, 1e-12);
  EXPECT_EQ(bleu(Texts{"a b"}, {{"a b"}}), 0);  // no 4-grams
  EXPECT_EQ(bleu(Texts{""}, {{"a"}}), 0);
}

TEST(Bleu, InvalidUtf8IsReplaced) {
  EXPECT_DOUBLE_EQ(bleu(Texts{"a b c \xFF"}, {{"a b c \uFFFD"}}), 100);
  EXPECT_DOUBLE_EQ(chrf(Texts{"\xC3"}, {{"\uFFFD"}}), 100);
}

TEST(Chrf, ByHand) {
  EXPECT_DOUBLE_EQ(chrf(Texts{"a b c"}, {{"abc"}}), 100);  // spaces do not count
  // "ab" in "ac": orders 1 and 2 count; P = R = (1/2 + 0) / 2.
  EXPECT_DOUBLE_EQ(chrf(Texts{"ab"}, {{"ac"}}), 25);
  EXPECT_EQ(chrf(Texts{""}, {{""}}), 0);
}

TEST(ExactMatch, CountsOneOfTheReferences) {
  EXPECT_EQ(exact_match(Texts{"a", "b", "c", "d"}, {{"a"}, {"x", "b"}, {"C"}, {"d "}}), 50);
}

TEST(EditDistance, ByHand) {
  const auto distance = [](const char* a, const char* b) {
    return edit_distance(characters(a), characters(b));
  };
  EXPECT_EQ(distance("", ""), 0);
  EXPECT_EQ(distance("", "abc"), 3);
  EXPECT_EQ(distance("abc", ""), 3);
  EXPECT_EQ(distance("kitten", "sitting"), 3);
  EXPECT_EQ(distance("intention", "execution"), 5);
  EXPECT_EQ(distance("ab", "ba"), 2);
  EXPECT_EQ(distance("été", "ete"), 2);
}

TEST(TokenErrorRate, ByHand) {
  // One substitution and one deletion in four tokens, then none in two.
  EXPECT_NEAR(token_error_rate(Texts{"a x c", "e f"}, {{"a b c d"}, {"z", "e  f"}}), 100.0 * 2 / 6,
              1e-12);
  EXPECT_EQ(token_error_rate(Texts{"a b"}, {{"c"}}), 200);
  EXPECT_EQ(token_error_rate(Texts{""}, {{" "}}), 0);
  EXPECT_EQ(token_error_rate(Texts{"a"}, {{""}}), 100);  // against nothing: each counts once
}

TEST(Measures, RefuseWhatCannotBeCompared) {
  for (const auto measure : {bleu, chrf, exact_match, token_error_rate}) {
    EXPECT_THROW(measure(Texts{}, {}), Error);
    EXPECT_THROW(measure(Texts{"a"}, {}), Error);
    EXPECT_THROW(measure(Texts{"a"}, {{}}), Error);
    EXPECT_THROW(measure(Texts{"a"}, {{"a"}, {"b"}}), Error);
  }
}

}  // namespace
}  // namespace fovea::text
