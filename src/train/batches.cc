#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/random.h"
#include "fovea/train.h"

namespace fovea::train {
namespace {

constexpr int64_t kBatchesInPool = 100;
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max() / (2 * kBatchesInPool);

// Fisher and Yates; draw i is number i of the key's stream.
template <class T>
void shuffle(std::vector<T>& items, RandomKey key) {
  for (size_t left = items.size(); left > 1; --left) {
    const uint64_t draw = bits32(key, left);
    std::swap(items[left - 1], items[(draw * left) >> 32]);
  }
}

struct Limits {
  int64_t tokens, examples;
};

Limits limits_of(const TrainConfig& config) {
  if (config.batch_tokens < 0 || config.batch_examples < 0 ||
      (config.batch_tokens == 0 && config.batch_examples == 0)) {
    throw Error("train", fmt::format("batch_tokens or batch_examples must be positive, found {} "
                                     "and {}",
                                     config.batch_tokens, config.batch_examples));
  }
  const auto limit = [](int64_t n) { return n == 0 ? kNoLimit : std::min(n, kNoLimit); };
  return {limit(config.batch_tokens), limit(config.batch_examples)};
}

}  // namespace

std::vector<std::vector<int64_t>> batches_of_epoch(const std::vector<int64_t>& lengths,
                                                   const TrainConfig& config, int64_t epoch) {
  const Limits limits = limits_of(config);
  const auto length = [&](int64_t example) { return std::max<int64_t>(lengths[example], 1); };
  std::vector<int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  shuffle(order, random_key(config.seed, Purpose::shuffle, epoch, 0));

  std::vector<std::vector<int64_t>> batches;
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    for (int64_t tokens = 0, examples = 0;
         end < order.size() && tokens < kBatchesInPool * limits.tokens &&
         examples < kBatchesInPool * limits.examples;
         ++end, ++examples) {
      tokens += length(order[end]);
    }
    if (config.like_lengths) {
      std::stable_sort(order.begin() + begin, order.begin() + end,
                       [&](int64_t a, int64_t b) { return length(a) < length(b); });
    }
    std::vector<int64_t> batch;
    int64_t longest = 0;
    for (; begin < end; ++begin) {
      const int64_t with = static_cast<int64_t>(batch.size()) + 1;
      longest = std::max(longest, length(order[begin]));
      if (!batch.empty() && (with > limits.examples || with > limits.tokens / longest)) {
        batches.push_back(std::move(batch));
        batch.clear();
        longest = length(order[begin]);
      }
      batch.push_back(order[begin]);
    }
    batches.push_back(std::move(batch));
  }
  shuffle(batches, random_key(config.seed, Purpose::shuffle, epoch, 1));
  return batches;
}

}  // namespace fovea::train
