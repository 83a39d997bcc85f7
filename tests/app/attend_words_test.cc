// `fovea attend --words`: attention over words that were typed, and pictures of weights.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "app/program.h"
#include "fovea/attention.h"
#include "fovea/io.h"

namespace fovea {
namespace {

using test::Folder;
using test::Ran;
using test::run_program;

constexpr const char* kWords = "the cat saw the dog. The cat ran.";  // nine tokens

// The weights of one call, by its picture of numbers.
struct Drawn {
  std::vector<std::string> rows, columns;
  std::vector<std::vector<float>> weights;
};

Drawn drawn(std::vector<std::string> options, const std::string& words = kWords) {
  const Folder folder;
  std::vector<std::string> arguments = {"attend", "--words", words, "--picture", folder / "w.json"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  const Ran ran = run_program(arguments);
  EXPECT_EQ(ran.code, 0) << ran.err;
  if (ran.code != 0) return {};
  const auto json = nlohmann::json::parse(test::read_bytes(folder / "w.json"));
  const auto& map = json.is_array() ? json.at(0) : json;
  return {map.at("rows"), map.at("columns"), map.at("weights")};
}

float sum(const std::vector<float>& row) { return std::accumulate(row.begin(), row.end(), 0.0f); }

TEST(AttendWords, TheSameWordLooksTheSameWay) {
  const Drawn map = drawn({});
  EXPECT_EQ(map.rows, (std::vector<std::string>{"the", "cat", "saw", "the", "dog", ".", "The",
                                                "cat", "ran", "."}));
  EXPECT_EQ(map.columns, map.rows);
  EXPECT_EQ(map.weights.at(0), map.weights.at(3));
  EXPECT_EQ(map.weights.at(1), map.weights.at(7));
  for (size_t i = 0; i < map.rows.size(); ++i) {
    EXPECT_NEAR(sum(map.weights[i]), 1.0f, 1e-5f);
    for (const float weight : map.weights[i]) EXPECT_LE(weight, map.weights[i][i]) << map.rows[i];
  }
}

TEST(AttendWords, EveryScoreAndWeighting) {
  for (const Listed& listed : list_scores()) {
    SCOPED_TRACE(listed.name);
    EXPECT_EQ(drawn({"--score", listed.name}).weights.size(), 10u);
  }
  for (const Listed& listed : list_weightings()) {
    SCOPED_TRACE(listed.name);
    const Drawn map = drawn({"--weighting", listed.name, "--seed", "3"});
    ASSERT_EQ(map.weights.size(), 10u);
    if (!listed.hard) continue;
    for (const auto& row : map.weights) EXPECT_EQ(std::count(row.begin(), row.end(), 1.0f), 1);
  }
}

TEST(AttendWords, Masks) {
  const Drawn causal = drawn({"--mask", "causal"});
  const Drawn segments = drawn({"--mask", "segments"});
  for (size_t i = 0; i < 10; ++i) {
    for (size_t j = 0; j < 10; ++j) {
      EXPECT_EQ(causal.weights[i][j] > 0, j <= i);
      EXPECT_EQ(segments.weights[i][j] > 0, (i < 6) == (j < 6));
    }
  }
  EXPECT_EQ(drawn({"--mask", "local-p:2"}).weights.size(), 10u);
  const Ran ran = run_program({"attend", "--words", kWords, "--mask", "matrix"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_NE(ran.err.find("'matrix' needs mask"), std::string::npos) << ran.err;
}

TEST(AttendWords, ASinkTakesItsShare) {
  const Drawn without = drawn({}), with = drawn({"--sink", "3"});
  for (size_t i = 0; i < without.weights.size(); ++i) {
    EXPECT_LT(sum(with.weights[i]), 0.99f);
    const float kept = sum(with.weights[i]);
    for (size_t j = 0; j < without.weights[i].size(); ++j) {
      EXPECT_NEAR(with.weights[i][j], kept * without.weights[i][j], 1e-5f);
    }
  }
}

TEST(AttendWords, ShowsInATerminal) {
  const Ran ran = run_program({"attend", "--words", "a b", "--show"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(ran.out.starts_with("\nscaled_dot\n  a b\na ")) << ran.out;
}

// Files are drawn too, a map for each head; the weights that were asked for are the same.
TEST(AttendWords, DrawsFiles) {
  const Folder folder;
  const auto in = folder / "in.safetensors";
  save_safetensors(in, {{"q", Tensor::randn({1, 2, 3, 4}, 1)},
                        {"k", Tensor::randn({1, 2, 5, 4}, 2)},
                        {"v", Tensor::randn({1, 2, 5, 4}, 3)}});
  const Ran ran = run_program({"attend", in, "--weighting", "none", "--weights", "--picture",
                               folder / "w.json", "-o", folder / "out"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto maps = nlohmann::json::parse(test::read_bytes(folder / "w.json"));
  const std::vector<float> weights = load_safetensors(folder / "out").at("weights").to_vector();
  ASSERT_EQ(maps.size(), 2u);
  EXPECT_EQ(maps[1].at("title"), "none, batch 0, head 1");
  EXPECT_EQ(maps[1].at("rows"), (std::vector<std::string>{"0", "1", "2"}));
  EXPECT_NEAR(maps[1].at("weights")[2][4].get<float>(), weights.at(29), 1e-4f);
  EXPECT_FALSE(load_safetensors(folder / "out").contains("sink"));
}

TEST(AttendWords, BadInput) {
  const Folder folder;
  for (const auto& [arguments, part] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"attend", "--words", " "}, "a word"},
           {{"attend", "--words", "a", folder / "in"}, "not both"},
           {{"attend", "--words", "a", "--picture", folder / "x.gif"}, ".gif"},
           {{"attend", "--words", "a", "--picture", folder / "absent/x.svg"}, "absent"},
           {{"attend", "--words", "a", "--sink", "inf"}, "--sink"}}) {
    const Ran ran = run_program(arguments);
    EXPECT_EQ(ran.code, 2) << part;
    EXPECT_NE(ran.err.find(part), std::string::npos) << ran.err;
  }
  EXPECT_EQ(folder.files(), 0);
}

}  // namespace
}  // namespace fovea
