#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "models/tiny.h"

namespace fovea::models::tests {
namespace {

std::vector<Seq2SeqConfig> decoder_configs() {
  std::vector<Seq2SeqConfig> all;
  for (const Wiring& wiring : kWirings) {
    for (const char* weighting : {"softmax", "sample"}) {
      Seq2SeqConfig c = tiny(wiring);
      c.weighting = weighting;
      c.cell = wiring.fed ? nn::Cell::lstm : nn::Cell::gru;
      c.layers = wiring.fed ? 2 : 1;
      all.push_back(c);
    }
    Seq2SeqConfig local = tiny(wiring);
    local.locality = Locality::local_m;
    local.window = 2;
    local.score = "dot";
    all.push_back(local);
  }
  Seq2SeqConfig fixed = tiny();
  fixed.context = Context::fixed;
  all.push_back(fixed);
  return all;
}

std::vector<std::vector<Decoded>> decoded(const Seq2Seq& m, const DecodeConfig& how,
                                          const std::vector<Sentence>& of = sentences()) {
  const Batch batch = batch_of(of);
  return decode(m, batch.source, batch.source_lengths, how);
}

// log p of a whole target, by teacher forcing.
double log_p(const Seq2Seq& m, const std::vector<int64_t>& source, std::vector<int64_t> target) {
  const NoGrad off;
  return -loss(m, batch_of({{source, std::move(target)}}), {.mode = Mode::eval}).nll;
}

std::vector<int64_t> written(const Decoded& d) {
  std::vector<int64_t> tokens = d.tokens;
  if (d.ended) tokens.push_back(kEnd);
  return tokens;
}

// Steps one at a time, with a state carried along and beams reordered, give what one pass over the
// whole target gives.
TEST(Decode, ScoresAreThoseOfTeacherForcing) {
  for (const Seq2SeqConfig& c : decoder_configs()) {
    const Seq2Seq m = model_of(c, 2);
    for (const int64_t beam : {1, 4}) {
      for (const float power : {0.0f, 0.7f, 1.0f}) {
        const auto all =
            decoded(m, {.beam = beam, .n_best = beam, .longest = 7, .length_power = power});
        for (size_t i = 0; i < all.size(); ++i) {
          ASSERT_EQ(all[i].size(), static_cast<size_t>(beam));
          for (const Decoded& d : all[i]) {
            const std::vector<int64_t> tokens = written(d);
            const double length = std::pow(static_cast<double>(tokens.size()), power);
            EXPECT_NEAR(d.score * length, log_p(m, sentences()[i].source, tokens), 2e-4);
          }
        }
      }
    }
  }
}

// The likeliest at each step, one pass over the prefix for each.
std::vector<int64_t> greedy(const Seq2Seq& m, const std::vector<int64_t>& source, size_t longest) {
  std::vector<int64_t> prefix;
  while (prefix.size() < longest && (prefix.empty() || prefix.back() != kEnd)) {
    double best = -1e30;
    int64_t likeliest = 0;
    for (int64_t v = 1; v < m.config.target_vocabulary; ++v) {
      if (v == kBegin) continue;
      std::vector<int64_t> longer = prefix;
      longer.push_back(v);
      const double p = log_p(m, source, longer);
      if (p > best) best = p, likeliest = v;
    }
    prefix.push_back(likeliest);
  }
  return prefix;
}

TEST(Decode, OneBeamIsGreedy) {
  for (const Seq2SeqConfig& c : decoder_configs()) {
    const Seq2Seq m = model_of(c, 5);
    const auto all = decoded(m, {.longest = 6});
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(written(all[i].front()), greedy(m, sentences()[i].source, 6));
    }
  }
}

// ---- All there are, on a vocabulary of three words and the end
// ------------------------------------

struct Whole {
  std::vector<int64_t> tokens;
  double score;
};

void enumerate(const Seq2Seq& m, const std::vector<int64_t>& source, std::vector<int64_t> prefix,
               size_t longest, float power, std::vector<Whole>& found) {
  const auto add = [&](const std::vector<int64_t>& tokens) {
    const double length = std::pow(static_cast<double>(tokens.size()), power);
    found.push_back({tokens, log_p(m, source, tokens) / length});
  };
  if (prefix.size() == longest) return add(prefix);
  for (const int64_t v : {1, 3, 4, 5}) {
    std::vector<int64_t> longer = prefix;
    longer.push_back(v);
    if (v == kEnd) {
      add(longer);
    } else {
      enumerate(m, source, longer, longest, power, found);
    }
  }
}

TEST(Decode, ABeamWideEnoughFindsTheBestOfAll) {
  for (const Seq2SeqConfig& wired : decoder_configs()) {
    Seq2SeqConfig c = wired;
    c.target_vocabulary = 6;
    const Seq2Seq m = model_of(c, 9, 0.8f);
    const std::vector<Sentence> two = {sentences()[0], sentences()[2]};
    for (const float power : {0.0f, 1.0f}) {
      const auto all =
          decoded(m, {.beam = 128, .n_best = 128, .longest = 4, .length_power = power}, two);
      for (size_t i = 0; i < two.size(); ++i) {
        std::vector<Whole> whole;
        enumerate(m, two[i].source, {}, 4, power, whole);
        std::stable_sort(whole.begin(), whole.end(),
                         [](const Whole& a, const Whole& b) { return a.score > b.score; });
        ASSERT_EQ(whole.size(), 1 + 3 + 9 + 27 + 81);
        // 121 prefixes and ends in 128 places: nothing was left out.
        ASSERT_EQ(all[i].size(), whole.size());
        EXPECT_EQ(written(all[i].front()), whole.front().tokens);
        for (size_t n = 0; n < whole.size(); ++n) {
          ASSERT_NEAR(all[i][n].score, whole[n].score, 1e-4) << n;
        }
      }
    }
  }
}

// Not wide enough for all, but never worse than one that is narrower by far; on this model better.
TEST(Decode, AWiderBeamIsBetterOnTheWhole) {
  double by_beam[2] = {0, 0};
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const Seq2Seq m = model_of(tiny(), seed, 0.8f);
    for (const int b : {0, 1}) {
      for (const auto& best : decoded(m, {.beam = b == 0 ? 1 : 8, .longest = 8})) {
        by_beam[b] += best.front().score;
      }
    }
  }
  EXPECT_GT(by_beam[1], by_beam[0] + 0.1);
}

TEST(Decode, BestFirstAndAllDifferent) {
  for (const Seq2SeqConfig& c : decoder_configs()) {
    const Seq2Seq m = model_of(c, 6);
    for (const auto& n_best : decoded(m, {.beam = 6, .n_best = 5, .longest = 9})) {
      ASSERT_EQ(n_best.size(), 5u);
      std::set<std::vector<int64_t>> seen;
      for (size_t n = 0; n < n_best.size(); ++n) {
        EXPECT_TRUE(seen.insert(written(n_best[n])).second);
        if (n > 0) {
          EXPECT_LE(n_best[n].score, n_best[n - 1].score);
        }
        EXPECT_LE(n_best[n].tokens.size(), 9u);
        for (const int64_t token : n_best[n].tokens) {
          EXPECT_TRUE(token == 1 || (token > kEnd && token < kVocabulary)) << token;
        }
      }
    }
  }
}

TEST(Decode, FewerWordsThanBeams) {
  Seq2SeqConfig c = tiny();
  c.target_vocabulary = 5;
  const Seq2Seq m = model_of(c);
  for (const auto& n_best : decoded(m, {.beam = 16, .n_best = 16, .longest = 2})) {
    EXPECT_EQ(n_best.size(), 1u + 2 + 4);  // the end; a word and the end; two words
  }
}

TEST(Seq2Seq, IsCountedWithoutBeingMade) {
  for (const Seq2SeqConfig& c : decoder_configs()) {
    EXPECT_EQ(count_weights(c), seq2seq(c, 1).weights.count());
  }
}

TEST(Decode, WeightsAreRowsOverTheSource) {
  for (const Seq2SeqConfig& c : decoder_configs()) {
    if (c.context == Context::fixed) continue;
    const Seq2Seq m = model_of(c, 2);
    for (const int64_t beam : {1, 3}) {
      const DecodeConfig asked{.beam = beam, .n_best = beam, .longest = 6, .weights = true};
      DecodeConfig for_places = asked;
      for_places.weights = false, for_places.places = true;
      const auto all = decoded(m, asked), most = decoded(m, for_places);
      for (size_t i = 0; i < all.size(); ++i) {
        for (size_t n = 0; n < all[i].size(); ++n) {
          const Decoded &d = all[i][n], &at = most[i][n];
          ASSERT_EQ(d.weights.size(), written(d).size());
          ASSERT_EQ(at.places.size(), d.weights.size());
          ASSERT_TRUE(at.weights.empty() && d.places.empty());
          for (size_t t = 0; t < d.weights.size(); ++t) {
            const std::vector<float>& w = d.weights[t];
            ASSERT_EQ(at.places[t], std::max_element(w.begin(), w.end()) - w.begin());
            const size_t S = sentences()[i].source.size();
            ASSERT_EQ(w.size(), S);
            const bool sees = c.locality == Locality::global || t <= S + 1;  // a window of 2
            EXPECT_NEAR(std::accumulate(w.begin(), w.end(), 0.0), sees ? 1.0 : 0.0, 1e-5);
            if (c.weighting == "sample") {
              EXPECT_EQ(std::count(w.begin(), w.end(), 1.0f), 1);
            }
          }
        }
      }
    }
  }
}

// Beams that change places take what they looked at with them: the same rows as the same target's
// when it is the only beam.
TEST(Decode, WeightsBelongToTheirTokens) {
  for (const Seq2SeqConfig& c : decoder_configs()) {
    if (c.context == Context::fixed) continue;
    const Seq2Seq m = model_of(c, 2);
    std::map<std::vector<int64_t>, std::vector<float>> by_prefix;
    int64_t compared = 0;
    for (const int64_t beam : {2, 5, 9}) {
      const auto all = decoded(m, {.beam = beam, .n_best = beam, .longest = 6, .weights = true},
                               {sentences()[1]});
      for (const Decoded& d : all.front()) {
        for (size_t t = 0; t < d.weights.size(); ++t) {
          const std::vector<int64_t> prefix(d.tokens.begin(), d.tokens.begin() + t);
          const auto [known, fresh] = by_prefix.emplace(prefix, d.weights[t]);
          if (fresh) continue;
          ++compared;
          for (size_t j = 0; j < known->second.size(); ++j) {
            ASSERT_NEAR(d.weights[t][j], known->second[j], 1e-5);
          }
        }
      }
    }
    EXPECT_GT(compared, 20);
    EXPECT_GE(by_prefix.size(), 8u);
  }
}

TEST(Decode, LimitsAreHonoured) {
  const Seq2Seq m = model_of(tiny(), 4);
  for (const int64_t longest : {1, 2, 5}) {
    for (const int64_t beam : {1, 4}) {
      for (const auto& n_best : decoded(m, {.beam = beam, .n_best = beam, .longest = longest})) {
        for (const Decoded& d : n_best) {
          EXPECT_LE(static_cast<int64_t>(written(d).size()), longest);
          if (!d.ended) {
            EXPECT_EQ(static_cast<int64_t>(d.tokens.size()), longest);
          }
        }
      }
    }
  }
}

TEST(Decode, WhatCannotBeIsNamed) {
  const Seq2Seq m = model_of(tiny());
  const auto message = [&](const DecodeConfig& how) { return error_of([&] { decoded(m, how); }); };
  EXPECT_NE(message({.beam = 0}).find("beam"), std::string::npos);
  EXPECT_NE(message({.beam = 5000}).find("found 5000"), std::string::npos);
  EXPECT_NE(message({.beam = 2, .n_best = 3}).find("n_best"), std::string::npos);
  EXPECT_NE(message({.longest = -1}).find("longest"), std::string::npos);
  const Tensor unknown = Tensor::from_ids(std::vector<int64_t>{kVocabulary}, {1, 1});
  const Tensor one = Tensor::from_ids(std::vector<int64_t>{1}, {1});
  EXPECT_NE(error_of([&] { decode(m, unknown, one); }), "no error");
}

}  // namespace
}  // namespace fovea::models::tests
