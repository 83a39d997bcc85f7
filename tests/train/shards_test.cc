#include "train/shards.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "kernels/table.h"
#include "tensor/impl.h"
#include "tests/team/threads.h"
#include "tests/train/tiny.h"

namespace fovea::train::tests {
namespace {

using team::Team;
using team::tests::Threads;
using team::tests::told;

// Of no block, of a few numbers, of one block and of several; over four megabytes, so that there
// are several buckets.
Tensors some_weights(uint64_t seed) {
  Tensors w;
  const int64_t sizes[] = {1'100'000, 3, 16'384, 50'001, 0, 16'385};
  for (size_t i = 0; i < std::size(sizes); ++i) {
    w["w" + std::to_string(i)] = Tensor::randn({sizes[i]}, seed + i);
  }
  return w;
}

double norm_by_one(const Tensors& gradients) {
  std::vector<kernels::Values> all;
  for (const auto& [name, tensor] : gradients) all.push_back({raw(tensor), tensor.numel()});
  return kernels::on(Device::cpu).squared_norm(all);
}

// Batch b gives (b + 0.7) times the same, but nothing for w3 in even batches, and nothing ever for
// w5.
Tensors gradients_of_batch(int64_t b) {
  static const Tensors base = some_weights(100);
  Tensors g;
  for (const auto& [name, tensor] : base) g[name] = tensor * (static_cast<float>(b) + 0.7f);
  if (b % 2 == 0) g.erase("w3");
  g.erase("w5");
  g["w1"].fill_(-0.0f);
  if (b == 1) g.erase("w1");
  return g;
}

TreeSum sum_of(int64_t first, int64_t end) {
  TreeSum sum;
  for (int64_t b = first; b < end; ++b) sum.add({b, 0, gradients_of_batch(b)});
  return sum;
}

TEST(Shards, add_and_measure_gradients_as_one_process_does) {
  constexpr int64_t kBatches = 5;
  const Tensors expected = sum_of(0, kBatches).total();
  const double norm = norm_by_one(expected);
  for (const int ranks : {1, 3, 5}) {
    std::mutex one_at_a_time;
    Tensors found;
    Threads threads(ranks);
    const auto thrown = threads.run([&](Team& team) {
      Tensors weights = some_weights(7);
      Shards shards(team, weights);
      shards.sum(sum_of(first_of_share(kBatches, team.rank(), ranks),
                        first_of_share(kBatches, team.rank() + 1, ranks))
                     .parts(),
                 kBatches);
      EXPECT_EQ(shards.squared_norm(), norm) << ranks;
      Tensors pieces;
      bool of_none = false;
      for (const auto& [name, tensor] : shards.own()) {
        of_none = of_none || (name == "w5" && tensor.grad());
        pieces[name] = tensor.grad() ? tensor.grad() : Tensor::zeros(tensor.shape());
      }
      EXPECT_FALSE(of_none);
      Tensors whole;
      for (const auto& [name, tensor] : weights) whole[name] = shards.whole(name, pieces);
      const std::lock_guard lock(one_at_a_time);
      if (team.is_first()) found = whole;
    });
    for (const auto& one : thrown) EXPECT_EQ(told(one), "");
    found.erase("w5");
    found["w4"] = Tensor::empty({0});
    Tensors want = expected;
    want["w4"] = Tensor::empty({0});
    EXPECT_TRUE(same_bits(found, want)) << ranks;
    EXPECT_TRUE(std::signbit(found.at("w1").to_vector()[0]));
  }
}

TEST(Shards, share_what_owners_have_and_deal_what_the_first_has) {
  for (const int ranks : {2, 7}) {
    Threads threads(ranks);
    std::mutex counting;
    int64_t owned = 0;
    const Tensors expected = some_weights(50);
    const auto thrown = threads.run([&](Team& team) {
      Tensors weights = some_weights(7);
      Shards shards(team, weights);
      shards.deal(team.is_first() ? expected : Tensors(), shards.own());
      shards.share();
      EXPECT_TRUE(same_bits(weights, expected)) << ranks;
      const std::lock_guard lock(counting);
      for (const auto& [name, tensor] : shards.own()) owned += tensor.numel();
    });
    for (const auto& one : thrown) EXPECT_EQ(told(one), "");
    int64_t all = 0;
    for (const auto& [name, tensor] : expected) all += tensor.numel();
    EXPECT_EQ(owned, all);
  }
}

// Each has its share of the memory, to a block.
TEST(Shards, are_of_one_size) {
  std::mutex adding;
  std::vector<int64_t> sizes;
  Threads threads(4);
  threads.run([&](Team& team) {
    const Shards shards(team, some_weights(7));
    int64_t own = 0;
    for (const auto& [name, tensor] : shards.own()) own += tensor.numel();
    const std::lock_guard lock(adding);
    sizes.push_back(own);
  });
  EXPECT_LT(std::ranges::max(sizes) - std::ranges::min(sizes), 2 * (1 << 14));
}

}  // namespace
}  // namespace fovea::train::tests
