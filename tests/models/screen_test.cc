#include "models/screen.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>
#include <vector>

#include "core/random.h"
#include "fovea/runtime.h"
#include "fovea/seq2seq.h"
#include "tests/host.h"

// Greedy decoding with the output layer screened, beside the same without.
namespace fovea::models {
namespace {

constexpr int64_t kScreenWords = 8200, kHidden = 128;  // just large enough
constexpr int64_t kSource = 30, kLongest = 12;

Seq2Seq large(uint64_t seed, Order order = Order::bahdanau) {
  Seq2SeqConfig c{.source_vocabulary = kSource,
                  .target_vocabulary = kScreenWords,
                  .embedding = 8,
                  .hidden = kHidden,
                  .order = order,
                  .input_feeding = order == Order::luong};
  if (order == Order::luong) c.score = "dot";
  Seq2Seq m = seq2seq(c, seed);
  const NoGrad off;
  m.output.weight.mul_(20.0f);  // so that words differ
  return m;
}

// Families of ten rows that differ by `apart`; the first two of each are equal.
void bring_close(Seq2Seq& m, float apart) {
  const NoGrad off;
  test::edit<float>(m.output.weight, [&](float* w) {
    for (int64_t v = 0; v < kScreenWords; ++v) {
      const float share = v % 10 < 2 ? 0.0f : apart;
      for (int64_t i = 0; i < kHidden; ++i) {
        float& here = w[v * kHidden + i];
        here = w[v / 10 * 10 * kHidden + i] * (1.0f + share * here);
      }
    }
  });
}

Tensor random_sentences(int64_t S, int64_t B, uint64_t seed) {
  const RandomKey key = random_key(seed, Purpose::data);
  std::vector<int64_t> ids(static_cast<size_t>(S * B));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = 4 + bits32(key, i) % (kSource - 4);
  return Tensor::from_ids(ids, {S, B});
}

std::vector<std::vector<Decoded>> greedy(const Seq2Seq& m, const Tensor& source) {
  const std::vector<int64_t> lengths(static_cast<size_t>(source.size(1)), source.size(0));
  return decode(m, source, Tensor::from_ids(lengths, {source.size(1)}), {.longest = kLongest});
}

Seq2Seq without_screen(Seq2Seq m) {
  m.screen = nullptr;
  return m;
}

void expect_same(const Seq2Seq& m, const Tensor& source) {
  const auto with = greedy(m, source), without = greedy(without_screen(m), source);
  ASSERT_EQ(with.size(), without.size());
  for (size_t b = 0; b < with.size(); ++b) {
    EXPECT_EQ(with[b][0].tokens, without[b][0].tokens);
    EXPECT_EQ(with[b][0].ended, without[b][0].ended);
    EXPECT_NEAR(with[b][0].score, without[b][0].score, 1e-3);
  }
}

TEST(OutputScreen, GreedyDecodingIsTheSame) {
  for (const Order order : {Order::bahdanau, Order::luong}) {
    for (uint64_t seed = 1; seed <= 6; ++seed) {
      const Seq2Seq m = large(seed, order);
      for (const int64_t B : {1, 3}) expect_same(m, random_sentences(5, B, seed));
    }
  }
}

TEST(OutputScreen, AndWhereManyWordsAreAsLikely) {
  for (const float apart : {1e-2f, 1e-3f, 1e-4f}) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      Seq2Seq m = large(seed);
      bring_close(m, apart);
      expect_same(m, random_sentences(6, 1, seed));
    }
  }
}

TEST(OutputScreen, IsMadeOnceAndAgainWhenTheLayerChanges) {
  Seq2Seq m = large(1);
  const auto first = m.screen->of(m.output);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(m.screen->of(m.output), first);
  EXPECT_EQ(Seq2Seq(m).screen->of(m.output), first);

  const Tensor source = random_sentences(5, 1, 1);
  const std::vector<int64_t> before = greedy(m, source)[0][0].tokens;
  const NoGrad off;
  m.output.weight.mul_(-1.0f);
  expect_same(m, source);
  EXPECT_NE(greedy(m, source)[0][0].tokens, before);
  EXPECT_NE(m.screen->of(m.output), first);

  test::edit<float>(m.output.bias, [](float* bias) { bias[17] = 1e4f; });
  EXPECT_EQ(greedy(m, source)[0][0].tokens, std::vector<int64_t>(kLongest, 17));

  nn::Linear other = large(2).output;
  EXPECT_EQ(m.screen->of(other)->scale[5], large(2).screen->of(other)->scale[5]);
  other.bias = {};
  EXPECT_EQ(m.screen->of(other)->bias[17], 0.0f);
}

TEST(OutputScreen, NotFiniteTakesTheProduct) {
  Seq2Seq m = large(3);
  const Tensor source = random_sentences(5, 1, 1);
  test::edit<float>(m.output.weight, [](float* w) { w[9 * kHidden + 1] = INFINITY; });
  EXPECT_EQ(m.screen->of(m.output), nullptr);
  EXPECT_EQ(greedy(m, source)[0][0].tokens, greedy(without_screen(m), source)[0][0].tokens);
}

TEST(OutputScreen, ManyThreadsAsk) {
  const Seq2Seq m = large(4);
  const Tensor source = random_sentences(5, 1, 1);
  const std::vector<int64_t> expected = greedy(without_screen(m), source)[0][0].tokens;
  std::vector<std::vector<int64_t>> found(3);
  std::vector<std::thread> threads;
  for (auto& tokens : found) {
    threads.emplace_back([&] { tokens = greedy(m, source)[0][0].tokens; });
  }
  for (std::thread& t : threads) t.join();
  for (const auto& tokens : found) EXPECT_EQ(tokens, expected);
}

}  // namespace
}  // namespace fovea::models
