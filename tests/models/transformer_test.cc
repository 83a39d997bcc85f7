#include "fovea/transformer.h"

#include <gtest/gtest.h>

#include "fovea/ops.h"
#include "fovea/train.h"
#include "tests/models/tiny.h"

namespace fovea::models {
namespace {

using namespace tests;
using nn::Positions;

constexpr Positions kPositions[] = {Positions::none,   Positions::sinusoidal, Positions::learned,
                                    Positions::rotary, Positions::alibi,      Positions::t5};

TransformerConfig small_transformer(Positions positions = Positions::rotary) {
  return {.source_vocabulary = kVocabulary,
          .target_vocabulary = kVocabulary,
          .blocks = 2,
          .depth = 8,
          .heads = 2,
          .positions = positions,
          .longest = 40};
}

TransformerConfig decoder_only(Positions positions = Positions::rotary) {
  TransformerConfig c = small_transformer(positions);
  c.source_vocabulary = 0;
  return c;
}

// Far from where training starts.
Transformer spread(const TransformerConfig& c) {
  Transformer m = transformer(c, 1);
  const NoGrad off;
  uint64_t seed = 7;
  for (const auto& [name, t] : m.weights.learned()) {
    Tensor(t).add_(Tensor::randn(t.shape(), seed++), 0.3f);
  }
  return m;
}

Tensor ids(const std::vector<int64_t>& of, int64_t rows = 1) {
  return Tensor::from_ids(of, {rows, static_cast<int64_t>(of.size()) / rows});
}

double distance(const Tensor& a, const Tensor& b) { return max(abs(a - b)).item(); }

TEST(Transformer, WhatComesLaterChangesNothing) {
  for (const Positions p : kPositions) {
    const Transformer m = spread(decoder_only(p));
    const Tensor a = ids({5, 9, 4, 7, 6, 8, 10}), b = ids({5, 9, 4, 7, 10, 4, 5});
    const auto before = decode_all(m, a).slice(1, 0, 4).to_vector();
    EXPECT_EQ(before, decode_all(m, b).slice(1, 0, 4).to_vector()) << name_of(p);
  }
}

TEST(Transformer, StepByStepIsAllAtOnce) {
  for (const Positions p : kPositions) {
    for (const bool linear : {false, true}) {
      TransformerConfig c = decoder_only(p);
      c.linear = linear;
      if (linear && (p == Positions::alibi || p == Positions::t5)) continue;
      const Transformer m = spread(c);
      const Tensor text = ids({5, 9, 4, 7, 6, 8, 10, 3, 4, 5});
      const Tensor whole = decode_all(m, text);
      Decoding d;
      for (int64_t t = 0, n = 0; t < 10; t += n) {
        n = t == 0 ? 4 : 1;
        const Tensor some = decode_more(m, text.slice(1, t, t + n), d);
        EXPECT_LT(distance(some, whole.slice(1, t, t + n)), 2e-5) << name_of(p) << " at " << t;
      }
      EXPECT_EQ(d.length, 10);
    }
  }
}

TEST(Transformer, PositionsTellOrder) {
  for (const Positions p : kPositions) {
    TransformerConfig c = small_transformer(p);
    c.target_vocabulary = 0;
    const Transformer m = spread(c);
    const Tensor a = encode(m, ids({5, 9, 4})), b = encode(m, ids({9, 5, 4}));
    const double moved = distance(a.select(1, 0), b.select(1, 1));
    if (p == Positions::none) {
      EXPECT_LT(moved, 1e-5);
    } else {
      EXPECT_GT(moved, 1e-4) << name_of(p);
    }
  }
}

// Past the ends of sentences anything may stand.
TEST(Transformer, PaddingHasNoInfluence) {
  for (const Positions p : kPositions) {
    const Transformer m = spread(small_transformer(p));
    const Loss plain = loss(m, batch_of(sentences()), {.mode = Mode::eval});
    const Loss padded = loss(m, batch_of(sentences(), {.more = 3, .id = 5}), {.mode = Mode::eval});
    EXPECT_EQ(plain.tokens, padded.tokens);
    EXPECT_NEAR(plain.nll, padded.nll, 1e-4) << name_of(p);
  }
}

TEST(Transformer, LearnsToCopy) {
  TransformerConfig c = small_transformer();
  c.depth = 16;
  const Transformer m = transformer(c, 1);
  std::vector<Sentence> all = sentences();
  for (Sentence& s : all) s.target = s.source;
  const Batch batch = batch_of(all);
  const double before = loss(m, batch, {.mode = Mode::eval}).nll;
  train::Optimizer adam({}, m.weights.learned());
  for (int step = 0; step < 200; ++step) {
    loss(m, batch).loss.backward();
    adam.step(0.01f);
    for (const auto& [name, t] : m.weights.learned()) Tensor(t).zero_grad();
  }
  EXPECT_LT(loss(m, batch, {.mode = Mode::eval}).nll, 0.02 * before);
  const auto decoded = decode(m, batch.source, batch.source_lengths, {.beam = 3, .weights = true});
  for (size_t i = 0; i < all.size(); ++i) {
    std::vector<int64_t> expected = all[i].source;
    expected.pop_back();
    EXPECT_EQ(decoded[i].front().tokens, expected);
    ASSERT_EQ(decoded[i].front().weights.size(), all[i].source.size());
    for (const auto& row : decoded[i].front().weights) {
      float sum = 0;
      for (const float w : row) sum += w;
      EXPECT_NEAR(sum, 1.0f, 1e-4f);
    }
  }
}

// A beam of rows that were chosen again and again goes on as each row would by itself.
TEST(Transformer, BeamsAreTheirOwnRows) {
  const Transformer m = spread(small_transformer());
  const Batch batch = batch_of(sentences());
  const auto all = decode(m, batch.source, batch.source_lengths, {.beam = 4, .n_best = 4});
  for (size_t i = 0; i < all.size(); ++i) {
    for (const Decoded& d : all[i]) {
      if (!d.ended) continue;
      Sentence s{sentences()[i].source, d.tokens};
      s.target.push_back(kEnd);
      const Loss l = loss(m, batch_of({s}), {.mode = Mode::eval});
      EXPECT_NEAR(d.score, -l.nll / static_cast<double>(l.tokens), 1e-4);
    }
  }
}

// A model that never ends is cut where its positions do.
TEST(Transformer, WritesNoMoreThanItsLearnedPositions) {
  TransformerConfig c = small_transformer(Positions::learned);
  c.longest = 8;
  Transformer m = spread(c);
  m.output.bias = Tensor::zeros({kVocabulary});
  m.output.bias.slice(0, kEnd, kEnd + 1).fill_(-1e4f);
  const Batch batch = batch_of({{{4, 5, 6, kEnd}, {4, kEnd}}});
  for (const int64_t beam : {1, 3}) {
    const auto all = decode(m, batch.source, batch.source_lengths, {.beam = beam});
    EXPECT_EQ(all[0].front().tokens.size(), 8u);
    EXPECT_FALSE(all[0].front().ended);
  }
  EXPECT_EQ(error_of([&] { decode(m, batch.source, batch.source_lengths, {.longest = 9}); }),
            "[decode] longest must be at most 8, as many positions as the model has learned, "
            "found 9");
}

TEST(Transformer, DropsTheSameForTheSameSeed) {
  const Transformer m = spread(small_transformer());
  const Batch batch = batch_of(sentences());
  const auto nll = [&](uint64_t seed) {
    return loss(m, batch, {.dropout = 0.3f, .seed = seed}).nll;
  };
  EXPECT_EQ(nll(1), nll(1));
  EXPECT_NE(nll(1), nll(2));
  EXPECT_EQ(loss(m, batch, {.mode = Mode::eval, .dropout = 0.3f}).nll, loss(m, batch, {}).nll);
}

TEST(Transformer, IsCountedBeforeMemoryIsTaken) {
  const TransformerConfig c = small_transformer(Positions::learned);
  EXPECT_EQ(count_weights(c), transformer(c, 1).weights.count());
  TransformerConfig huge = c;
  huge.depth = 65536;
  huge.blocks = 512;
  EXPECT_GT(count_weights(huge), int64_t{1} << 40);
}

TEST(Transformer, SaysWhatDoesNotFit) {
  TransformerConfig c = small_transformer();
  c.heads = 3;
  EXPECT_EQ(error_of([&] { transformer(c, 1); }),
            "[transformer] 3 heads do not divide a query depth of 8");
  c = small_transformer();
  c.depth = 6;
  EXPECT_EQ(error_of([&] { transformer(c, 1); }),
            "[transformer] rotary positions need an even depth of each head, found 6 / 2 = 3");
  c = small_transformer(Positions::alibi);
  c.linear = true;
  EXPECT_NE(error_of([&] { transformer(c, 1); }).find("linear attention has no scores"),
            std::string::npos);
  const Transformer m = transformer(decoder_only(Positions::learned), 1);
  EXPECT_EQ(error_of([&] {
              decode_all(m, Tensor::zeros({1, 41}, DType::i64));
            }),
            "[transformer] a sequence of 41, and 40 positions are learned: give it in parts, or "
            "train with other positions");
  EXPECT_EQ(error_of([&] { encode(m, ids({4})); }), "[encode] this Transformer has no encoder");
}

}  // namespace
}  // namespace fovea::models
