#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "tests/train/tiny.h"

namespace fovea::train::tests {
namespace {

TEST(Schedule, constant_after_a_linear_warm_up) {
  const ScheduleConfig c{.rate = 0.4f, .warmup = 4};
  for (int64_t step = 1; step < 10; ++step) {
    EXPECT_FLOAT_EQ(rate_at(c, step, 0.5, 0), 0.1f * std::min<int64_t>(step, 4));
  }
}

TEST(Schedule, cosine_from_the_rate_to_the_floor) {
  const ScheduleConfig c{.decay = Decay::cosine, .rate = 2.0f, .floor = 0.1f};
  EXPECT_FLOAT_EQ(rate_at(c, 1, 0, 0), 2.0f);
  EXPECT_FLOAT_EQ(rate_at(c, 50, 0.5, 0), 1.1f);
  EXPECT_FLOAT_EQ(rate_at(c, 25, 0.25, 0), 0.2f + 0.9f * (1 + std::sqrt(0.5f)));
  EXPECT_FLOAT_EQ(rate_at(c, 99, 1, 0), 0.2f);
  EXPECT_FLOAT_EQ(rate_at(c, 99, 7, 0), 0.2f);
}

TEST(Schedule, inverse_root_from_the_end_of_the_warm_up) {
  const ScheduleConfig c{.decay = Decay::inverse_root, .rate = 1.0f, .floor = 0.05f, .warmup = 100};
  EXPECT_FLOAT_EQ(rate_at(c, 25, 0, 0), 0.25f);
  EXPECT_FLOAT_EQ(rate_at(c, 100, 0, 0), 1.0f);
  EXPECT_FLOAT_EQ(rate_at(c, 400, 0, 0), 0.5f);
  EXPECT_FLOAT_EQ(rate_at(c, 1'000'000, 0, 0), 0.05f);
  EXPECT_FLOAT_EQ(rate_at({.decay = Decay::inverse_root, .rate = 1.0f}, 16, 0, 0), 0.25f);
}

TEST(Schedule, plateau_by_its_factor) {
  const ScheduleConfig c{.decay = Decay::plateau, .rate = 8.0f, .floor = 0.1f, .factor = 0.5f};
  EXPECT_FLOAT_EQ(rate_at(c, 9, 0.5, 0), 8.0f);
  EXPECT_FLOAT_EQ(rate_at(c, 9, 0.5, 2), 2.0f);
  EXPECT_FLOAT_EQ(rate_at(c, 9, 0.5, 9), 0.8f);
  EXPECT_EQ(decay("plateau"), Decay::plateau);
  EXPECT_STREQ(name_of(Decay::inverse_root), "inverse_root");
  EXPECT_THROW(decay("step"), Error);
}

// ---- Batches -----------------------------------------------------------------------------------

std::vector<int64_t> some_lengths(int64_t n) {
  const RandomKey key = random_key(3, Purpose::data);
  std::vector<int64_t> lengths(n);
  for (int64_t i = 0; i < n; ++i) lengths[i] = bits32(key, i) % 60;
  return lengths;
}

TrainConfig batches_config(int64_t tokens, int64_t examples = 0) {
  TrainConfig c;
  c.batch_tokens = tokens;
  c.batch_examples = examples;
  return c;
}

using Batches = std::vector<std::vector<int64_t>>;

void expect_each_once(const Batches& batches, int64_t n) {
  std::vector<int64_t> seen;
  for (const auto& batch : batches) {
    EXPECT_FALSE(batch.empty());
    seen.insert(seen.end(), batch.begin(), batch.end());
  }
  std::sort(seen.begin(), seen.end());
  std::vector<int64_t> all(n);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(seen, all);
}

// The tokens of the batches with their padding.
int64_t padded(const Batches& batches, const std::vector<int64_t>& lengths) {
  int64_t tokens = 0;
  for (const auto& batch : batches) {
    int64_t longest = 0;
    for (const int64_t i : batch) longest = std::max(longest, lengths[i]);
    tokens += longest * static_cast<int64_t>(batch.size());
  }
  return tokens;
}

TEST(Batches, hold_each_example_once_within_the_limits) {
  const auto lengths = some_lengths(5000);
  for (const auto& [tokens, examples] : {std::pair(200, 0), {200, 3}, {0, 16}, {30, 0}}) {
    for (const bool alike : {true, false}) {
      TrainConfig config = batches_config(tokens, examples);
      config.like_lengths = alike;
      const Batches batches = batches_of_epoch(lengths, config, 0);
      expect_each_once(batches, 5000);
      for (const auto& batch : batches) {
        const int64_t n = static_cast<int64_t>(batch.size());
        int64_t longest = 0;
        for (const int64_t i : batch) longest = std::max(longest, lengths[i]);
        EXPECT_TRUE(tokens == 0 || n == 1 || n * longest <= tokens);
        EXPECT_TRUE(examples == 0 || n <= examples);
      }
    }
  }
}

// Of lengths 1 to 4, equally many, in batches of 64: the mean length of a batch is that of all,
// give or take √(1.25/64) = 0.14, where lengths are mixed, and tells them apart where they are not.
TEST(Batches, are_of_any_lengths_where_like_ones_are_not_wanted) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < 6400; ++i) lengths.push_back(1 + i % 4);
  TrainConfig config = batches_config(0, 64);
  const auto furthest = [&] {
    double most = 0;
    for (const auto& batch : batches_of_epoch(lengths, config, 0)) {
      double sum = 0;
      for (const int64_t i : batch) sum += static_cast<double>(lengths[i]);
      most = std::max(most, std::abs(sum / static_cast<double>(batch.size()) - 2.5));
    }
    return most;
  };
  EXPECT_EQ(furthest(), 1.5);
  config.like_lengths = false;
  EXPECT_LT(furthest(), 5 * 0.14);
}

TEST(Batches, waste_little) {
  const auto lengths = some_lengths(5000);
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  const Batches batches = batches_of_epoch(lengths, batches_config(400), 2);
  EXPECT_LT(padded(batches, lengths), tokens * 21 / 20);
  EXPECT_LT(static_cast<double>(batches.size()), static_cast<double>(tokens) / 400 * 1.15);
}

TEST(Batches, are_a_function_of_seed_and_epoch) {
  const auto lengths = some_lengths(500);
  TrainConfig c = batches_config(200);
  std::set<Batches> epochs;
  for (int64_t epoch = 0; epoch < 5; ++epoch) epochs.insert(batches_of_epoch(lengths, c, epoch));
  EXPECT_EQ(epochs.size(), 5u);
  EXPECT_EQ(batches_of_epoch(lengths, c, 3), batches_of_epoch(lengths, c, 3));
  EXPECT_TRUE(epochs.contains(batches_of_epoch(lengths, c, 3)));
  c.seed = 2;
  EXPECT_FALSE(epochs.contains(batches_of_epoch(lengths, c, 0)));
}

// Long and short batches take turns, so that no epoch begins with what is easy.
TEST(Batches, are_shuffled_themselves) {
  const auto lengths = some_lengths(2000);
  const Batches batches = batches_of_epoch(lengths, batches_config(200), 0);
  int64_t turns = 0;
  for (size_t i = 1; i < batches.size(); ++i) {
    turns += lengths[batches[i][0]] < lengths[batches[i - 1][0]];
  }
  EXPECT_NEAR(static_cast<double>(turns) / static_cast<double>(batches.size()), 0.5, 0.15);
}

TEST(Batches, of_odd_data) {
  expect_each_once(batches_of_epoch({0, 0, 0}, batches_config(2), 0), 3);
  expect_each_once(batches_of_epoch({1000}, batches_config(10), 0), 1);
  EXPECT_TRUE(batches_of_epoch({}, batches_config(10), 0).empty());
  EXPECT_THROW(batches_of_epoch({1}, batches_config(0, 0), 0), Error);
  EXPECT_THROW(batches_of_epoch({1}, batches_config(-1, 0), 0), Error);
}

}  // namespace
}  // namespace fovea::train::tests
