#include "fovea/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/random.h"
#include "fovea/ops.h"
#include "tests/errors.h"

// Search over a toy whose every sequence can be written down: what comes next is drawn from a hash
// of the whole sequence so far, so that rows which are mixed up show.
namespace fovea::models {
namespace {

constexpr int64_t kToyPadding = 0, kToyEnd = 1, kToyTokens = 5;

using Tokens = std::vector<int64_t>;

// log p of each next token; padding has the largest, and must not be taken.
std::vector<float> log_p_after(const Tokens& sequence) {
  Seed at(17);
  for (const int64_t token : sequence) at = at.at(token);
  const RandomKey key = random_key(at.value(), Purpose::data);
  std::vector<float> logits;
  for (uint64_t v = 0; v < kToyTokens; ++v) {
    logits.push_back(static_cast<float>(3 * unit_open(bits32(key, v))));
  }
  logits[kToyPadding] = 3.5f;
  return log_softmax(Tensor::from(logits, {kToyTokens})).to_vector();
}

class Toy : public Generator {
 public:
  explicit Toy(int64_t rows) : rows_(static_cast<size_t>(rows)) {}

  void advance(const Tensor& tokens) override {
    ASSERT_EQ(tokens.numel(), static_cast<int64_t>(rows_.size()));
    const Tokens ids = tokens.to_ids();
    for (size_t i = 0; i < rows_.size(); ++i) rows_[i].push_back(ids[i]);
    ++steps;
  }
  Tensor logits() override {
    ++asked_for_logits;
    std::vector<float> all;
    for (const Tokens& row : rows_) {
      const std::vector<float> p = log_p_after(row);
      all.insert(all.end(), p.begin(), p.end());
    }
    return Tensor::from(all, {static_cast<int64_t>(rows_.size()), kToyTokens});
  }
  // Two numbers that tell which row this is.
  Tensor weights() override {
    std::vector<float> all;
    for (const Tokens& row : rows_) {
      all.push_back(static_cast<float>(row.size()));
      all.push_back(log_p_after(row)[2]);
    }
    return Tensor::from(all, {static_cast<int64_t>(rows_.size()), 2});
  }
  void select_rows(const Tensor& ids) override {
    std::vector<Tokens> next;
    for (const int64_t i : ids.to_ids()) next.push_back(rows_[static_cast<size_t>(i)]);
    rows_ = next;
  }
  std::optional<Likeliest> likeliest(int64_t row, std::span<const int64_t> never) override {
    if (!knows(row)) return std::nullopt;
    ++answered;
    const std::vector<float> p = log_p_after(rows_[static_cast<size_t>(row)]);
    Likeliest best{-1, -1e30};
    for (int64_t v = 0; v < kToyTokens; ++v) {
      if (std::find(never.begin(), never.end(), v) != never.end()) continue;
      if (p[static_cast<size_t>(v)] > best.log_p) best = {v, p[static_cast<size_t>(v)]};
    }
    return best;
  }

  std::function<bool(int64_t)> knows = [](int64_t) { return false; };
  int64_t steps = 0, asked_for_logits = 0, answered = 0;

 private:
  std::vector<Tokens> rows_;
};

Sequences two(int64_t limit) {
  return {.first = {7, 8}, .limits = {limit, limit + 1}, .ends = {kToyEnd}, .never = {kToyPadding}};
}

std::vector<std::vector<Decoded>> found(const Sequences& s, const DecodeConfig& c) {
  Toy toy(static_cast<int64_t>(s.first.size()) * c.beam);
  return search(toy, s, c);
}

struct Listed {
  Tokens tokens;  // with its end, where it has one
  double score;
};

void enumerate(const Tokens& so_far, double log_p, int64_t limit, float power,
               std::vector<Listed>& all) {
  const auto n = static_cast<int64_t>(so_far.size()) - 1;  // without what it begins after
  if (n > 0 && (so_far.back() == kToyEnd || n == limit)) {
    all.push_back({Tokens(so_far.begin() + 1, so_far.end()), log_p / std::pow(n, power)});
    return;
  }
  const std::vector<float> p = log_p_after(so_far);
  for (int64_t v = 0; v < kToyTokens; ++v) {
    if (v == kToyPadding) continue;
    Tokens longer = so_far;
    longer.push_back(v);
    enumerate(longer, log_p + static_cast<double>(p[static_cast<size_t>(v)]), limit, power, all);
  }
}

std::vector<Listed> all_of(int64_t first, int64_t limit, float power) {
  std::vector<Listed> all;
  enumerate({first}, 0, limit, power, all);
  std::stable_sort(all.begin(), all.end(),
                   [](const Listed& a, const Listed& b) { return a.score > b.score; });
  return all;
}

Tokens written(const Decoded& d) {
  Tokens tokens = d.tokens;
  if (d.ended) tokens.push_back(kToyEnd);
  return tokens;
}

TEST(Search, WideEnoughItIsAnEnumeration) {
  for (const float power : {0.0f, 0.7f, 1.0f}) {
    const Sequences s = two(3);
    const auto best = found(s, {.beam = 256, .n_best = 256, .length_power = power});
    for (size_t b = 0; b < 2; ++b) {
      const std::vector<Listed> whole = all_of(s.first[b], s.limits[b], power);
      ASSERT_EQ(best[b].size(), whole.size());
      for (size_t n = 0; n < whole.size(); ++n) {
        ASSERT_EQ(written(best[b][n]), whole[n].tokens) << n;
        ASSERT_NEAR(best[b][n].score, whole[n].score, 1e-6);
        EXPECT_EQ(best[b][n].ended, whole[n].tokens.back() == kToyEnd);
      }
    }
  }
}

// On a model where it matters: the likeliest first token does not begin the best sequence.
TEST(Search, ManyBeamsFindWhatGreedyMisses) {
  int64_t greedy_missed = 0, beam_missed = 0;
  for (int64_t first = 0; first < 40; ++first) {
    const Sequences s{.first = {first}, .limits = {5}, .ends = {kToyEnd}, .never = {kToyPadding}};
    const double best = all_of(first, 5, 1.0f).front().score;
    greedy_missed += found(s, {})[0][0].score < best - 1e-6;
    beam_missed += found(s, {.beam = 48})[0][0].score < best - 1e-6;
  }
  EXPECT_GT(greedy_missed, 10);
  EXPECT_LT(beam_missed, greedy_missed / 3);
}

TEST(Search, GreedyTakesTheLikeliestAtEachStep) {
  const Sequences s = two(6);
  const auto best = found(s, {});
  for (size_t b = 0; b < 2; ++b) {
    Tokens so_far = {s.first[b]};
    double log_p = 0;
    while (so_far.back() != kToyEnd && static_cast<int64_t>(so_far.size()) <= s.limits[b]) {
      const std::vector<float> p = log_p_after(so_far);
      const auto likeliest = std::max_element(p.begin() + 1, p.end());
      log_p += static_cast<double>(*likeliest);
      so_far.push_back(likeliest - p.begin());
    }
    so_far.erase(so_far.begin());
    ASSERT_EQ(best[b].size(), 1u);
    EXPECT_EQ(written(best[b][0]), so_far);
    EXPECT_NEAR(best[b][0].score, log_p / static_cast<double>(so_far.size()), 1e-6);
  }
}

// What begins so, of all that can be written; p of the beginning counts.
TEST(Search, APrefixBeginsEverySequence) {
  const Sequences s = two(4);
  const Tokens prefix = {3, 2};
  const auto best = found(s, {.beam = 256, .n_best = 256, .prefix = prefix});
  for (size_t b = 0; b < 2; ++b) {
    std::vector<Listed> whole = all_of(s.first[b], s.limits[b], 1.0f);
    std::erase_if(whole, [&](const Listed& w) {
      return w.tokens.size() < 3 || !std::equal(prefix.begin(), prefix.end(), w.tokens.begin());
    });
    ASSERT_EQ(best[b].size(), whole.size());
    for (size_t n = 0; n < whole.size(); ++n) {
      ASSERT_EQ(written(best[b][n]), whole[n].tokens) << n;
      ASSERT_NEAR(best[b][n].score, whole[n].score, 1e-6);
    }
  }
  // By one beam, and with looks of the steps that were given too.
  const auto greedy = found(s, {.weights = true, .prefix = prefix});
  for (size_t b = 0; b < 2; ++b) {
    const Decoded& d = greedy[b][0];
    ASSERT_GE(d.tokens.size(), 2u);
    EXPECT_EQ(Tokens(d.tokens.begin(), d.tokens.begin() + 2), prefix);
    EXPECT_EQ(d.weights.size(), d.tokens.size() + (d.ended ? 1 : 0));
  }
}

TEST(Search, APrefixThatCannotBeIsRefused) {
  using test::error_of;
  using test::has;
  const Sequences s = two(3);
  EXPECT_TRUE(has(error_of([&] { found(s, {.prefix = {2, kToyEnd}}); }), "ends a sequence"));
  EXPECT_TRUE(has(error_of([&] { found(s, {.prefix = {kToyPadding}}); }), "in none"));
  EXPECT_TRUE(has(error_of([&] { found(s, {.prefix = {99}}); }), "99"));
  EXPECT_TRUE(has(error_of([&] { found(s, {.prefix = {2, 2, 2}}); }), "leaves nothing"));
  EXPECT_TRUE(has(error_of([&] { found(s, {.longest = 1, .prefix = {2}}); }), "limit is 1"));
}

TEST(Search, LengthPowerDecidesBetweenShortAndLong) {
  size_t by_power[2] = {0, 0};
  for (int64_t first = 0; first < 20; ++first) {
    const Sequences s{.first = {first}, .limits = {6}, .ends = {kToyEnd}, .never = {kToyPadding}};
    by_power[0] += written(found(s, {.beam = 32, .length_power = 0.0f})[0][0]).size();
    by_power[1] += written(found(s, {.beam = 32, .length_power = 2.0f})[0][0]).size();
  }
  EXPECT_LT(by_power[0] + 20, by_power[1]);
}

TEST(Search, LimitsAreASequencesOwnUnlessOneIsGiven) {
  Sequences s = two(4);
  s.never.push_back(kToyEnd);  // nothing ends
  for (const int64_t beam : {1, 3}) {
    const auto own = found(s, {.beam = beam, .n_best = beam});
    const auto given = found(s, {.beam = beam, .n_best = beam, .longest = 2});
    for (size_t b = 0; b < 2; ++b) {
      ASSERT_EQ(own[b].size(), static_cast<size_t>(beam));
      for (const Decoded& d : own[b]) {
        EXPECT_EQ(static_cast<int64_t>(d.tokens.size()), s.limits[b]);
        EXPECT_FALSE(d.ended);
      }
      for (const Decoded& d : given[b]) EXPECT_EQ(d.tokens.size(), 2u);
    }
  }
}

TEST(Search, NothingMoreIsAskedOnceAllHaveEnded) {
  Toy toy(1);
  const Sequences s{.first = {7}, .limits = {50}, .ends = {kToyEnd}, .never = {0, 2, 3, 4}};
  const auto best = search(toy, s);
  EXPECT_TRUE(best[0][0].ended);
  EXPECT_TRUE(best[0][0].tokens.empty());
  EXPECT_EQ(toy.steps, 1);
}

TEST(Search, WeightsFollowTheirTokens) {
  const Sequences s = two(4);
  const auto best = found(s, {.beam = 5, .n_best = 5, .weights = true});
  for (size_t b = 0; b < 2; ++b) {
    for (const Decoded& d : best[b]) {
      const Tokens tokens = written(d);
      ASSERT_EQ(d.weights.size(), tokens.size());
      Tokens so_far = {s.first[b]};
      for (size_t t = 0; t < tokens.size(); ++t) {
        ASSERT_EQ(d.weights[t][0], static_cast<float>(t + 1));
        ASSERT_EQ(d.weights[t][1], log_p_after(so_far)[2]);
        so_far.push_back(tokens[t]);
      }
    }
  }
  EXPECT_TRUE(found(s, {})[0][0].weights.empty());
}

// A generator that knows the likeliest by itself is not asked for logits, unless it has no answer.
TEST(Search, TheFasterAnswerIsTheSame) {
  const Sequences s = two(6);
  Toy knows(2), sometimes(2), never(2), beams(6);
  knows.knows = beams.knows = [](int64_t) { return true; };
  sometimes.knows = [](int64_t row) { return row == 0; };
  const auto a = search(knows, s), b = search(sometimes, s), c = search(never, s);
  for (size_t i = 0; i < 2; ++i) {
    for (const auto& other : {a, b}) {
      EXPECT_EQ(other[i][0].tokens, c[i][0].tokens);
      EXPECT_NEAR(other[i][0].score, c[i][0].score, 1e-6);
    }
  }
  EXPECT_EQ(knows.asked_for_logits, 0);
  EXPECT_GT(sometimes.asked_for_logits, 0);
  search(beams, s, {.beam = 3});
  EXPECT_EQ(beams.answered, 0);
}

TEST(Search, WhatCannotBeIsNamed) {
  const auto message = [](const Sequences& s, const DecodeConfig& c, int64_t rows) {
    return test::error_of([&] {
      Toy toy(rows);
      search(toy, s, c);
    });
  };
  Sequences s = two(3);
  EXPECT_NE(message(s, {.beam = 0}, 2).find("beam"), std::string::npos);
  s.limits = {3};
  EXPECT_NE(message(s, {}, 2).find("2 sequences, found 1"), std::string::npos);
  s.limits = {3, 0};
  EXPECT_NE(message(s, {}, 2).find("found 0"), std::string::npos);
  EXPECT_EQ(message(s, {.longest = 2}, 2), "no error");
}

}  // namespace
}  // namespace fovea::models
