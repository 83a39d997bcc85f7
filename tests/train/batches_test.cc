#include <cmath>
#include <numeric>

#include "fovea/nn.h"
#include "tests/train/tiny.h"
#include "train/gradient_sum.h"

// Steps of several batches.
namespace fovea::train::tests {
namespace {

// ---- The tree ----------------------------------------------------------------------------------

Tensor leaf(int64_t b) { return Tensor::randn({16}, static_cast<uint64_t>(b) + 1); }

// Its definition, node by node: batches [first, first + size) of n, size a power of 2.
Tensor node(int64_t first, int64_t size, int64_t n) {
  if (size == 1) return leaf(first);
  const Tensor left = node(first, size / 2, n);
  return first + size / 2 < n ? left + node(first + size / 2, size / 2, n) : left;
}

TEST(Batches, are_added_in_one_tree_however_they_are_dealt) {
  int64_t differs_from_in_order = 0;
  for (int64_t n = 1; n <= 21; ++n) {
    const std::vector<float> expected = node(0, 32, n).to_vector();
    Tensor in_order = Tensor::zeros({16});
    for (int64_t b = 0; b < n; ++b) in_order = in_order + leaf(b);
    differs_from_in_order += in_order.to_vector() != expected;
    for (int64_t ranks = 1; ranks <= n; ++ranks) {
      TreeSum all;
      for (int64_t r = 0; r < ranks; ++r) {
        TreeSum own;
        const int64_t end = first_of_share(n, r + 1, ranks);
        for (int64_t b = first_of_share(n, r, ranks); b < end; ++b)
          own.add({b, 0, {{"x", leaf(b)}}});
        for (PartialSum& part : own.parts()) all.add(std::move(part));
      }
      EXPECT_EQ(all.total().at("x").to_vector(), expected) << n << " " << ranks;
    }
  }
  EXPECT_GT(differs_from_in_order, 15);  // or the order were not tested
}

TEST(Batches, without_a_gradient_add_nothing_not_even_a_zero) {
  TreeSum sum;
  sum.add({0, 0, {}});
  sum.add({1, 0, {{"x", Tensor::full({1}, -0.0f)}}});
  sum.add({2, 0, {{"y", Tensor::full({1}, 2.0f)}}});
  const Tensors total = sum.total();
  EXPECT_EQ(total.size(), 2u);
  EXPECT_TRUE(std::signbit(total.at("x").item()));
  EXPECT_EQ(total.at("y").item(), 2.0f);
}

// ---- Steps -------------------------------------------------------------------------------------

// Tiny without dropout, and two words to a sentence, so that how examples are cut into batches is
// all that differs.
struct Plain : Tiny {
  Plain() {
    for (auto& sentence : sentences) sentence.resize(2);
    learner.lengths.assign(sentences.size(), 2);
    learner.loss = [this](std::span<const int64_t> batch, uint64_t seed) {
      seeds.push_back(seed);
      const Tensor loss = forward(batch, 0.0f, seed);
      const double count = static_cast<double>(batch.size());
      return StepLoss{loss, loss.item() * count, count};
    };
  }
  std::vector<uint64_t> seeds;
};

TrainConfig config_of_batches(int64_t batches, int64_t steps) {
  TrainConfig c = tiny_config();
  c.batches = batches;
  c.batch_tokens = 8;
  c.steps = steps;
  c.validate_every = 5;
  return c;
}

int64_t batches_of(const TrainConfig& config) {
  const Plain plain;
  return static_cast<int64_t>(batches_of_epoch(plain.learner.lengths, config, 0).size());
}

// Batches are not of one size here, so that a mean of their means would be another.
TEST(Batches, of_a_step_learn_what_one_large_batch_does) {
  const Folder folders;
  TrainConfig config = config_of_batches(1, 12);
  config.clip = 0.3f;
  config.optimizer = {.method = Method::sgd, .momentum = 0.5f};
  config.batch_tokens = 1 << 20;
  Plain whole;
  train(folders / "whole", whole.learner, config);
  config.batch_tokens = 10;  // five sentences, and three
  config.batches = batches_of(config);
  ASSERT_GT(config.batches, 3);
  Plain parts;
  train(folders / "parts", parts.learner, config);
  for (const auto& [name, tensor] : whole.learner.parameters) {
    const std::vector<float> a = tensor.to_vector(), b = parts.at(name.c_str()).to_vector();
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5) << name;
  }
}

// A step by hand: the mean's gradient, its norm, the optimizer.
TEST(Batches, one_to_a_step_is_the_step_without_them_to_the_bit) {
  const Folder folders;
  TrainConfig config = config_of_batches(1, 9);
  config.average = 0;
  config.schedule = {.rate = 0.05f};
  config.keep = Kept::last;
  config.clip = 0.5f;
  Plain trained;
  train(folders / "run", trained.learner, config);

  Plain by_hand;
  Optimizer optimizer(config.optimizer, by_hand.learner.parameters);
  int64_t step = 0;
  for (int64_t epoch = 0; step < config.steps; ++epoch) {
    for (const auto& batch : batches_of_epoch(by_hand.learner.lengths, config, epoch)) {
      if (step++ == config.steps) break;
      by_hand.forward(batch, 0.0f, 0).backward();
      clip_by_norm(by_hand.learner.parameters, config.clip);
      optimizer.step(config.schedule.rate);
      for (const auto& [name, tensor] : by_hand.learner.parameters) Tensor(tensor).zero_grad();
    }
  }
  EXPECT_TRUE(same_bits(trained.learner.parameters, by_hand.learner.parameters));
}

TEST(Batches, draw_what_they_would_draw_one_to_a_step) {
  const Folder folders;
  Plain one, three;
  train(folders / "one", one.learner, config_of_batches(1, 6));
  const TrainConfig config = config_of_batches(3, 2);
  ASSERT_GE(batches_of(config), 6);
  train(folders / "three", three.learner, config);
  EXPECT_EQ(one.seeds, three.seeds);
}

TEST(Batches, fewer_at_the_end_of_an_epoch) {
  const Folder folders;
  TrainConfig config = config_of_batches(5, 0);
  config.epochs = 2;
  const int64_t all = batches_of(config);
  ASSERT_NE(all % 5, 0);
  Plain plain;
  EXPECT_EQ(train(folders / "run", plain.learner, config).steps, 2 * ((all + 4) / 5));
  EXPECT_EQ(read_safetensors(folders / "run/state.safetensors").metadata.at("seen"), "46");
}

TEST(Batches, resume_is_bit_equal_wherever_the_run_was_stopped) {
  const Folder folders;
  for (const int64_t batches : {2, 3}) {
    const TrainConfig config = config_of_batches(batches, 10);
    const auto whole = folders / ("whole" + std::to_string(batches));
    {
      Tiny tiny;
      train(whole, tiny.learner, config);
    }
    for (int64_t cut = 1; cut < 2 * config.steps; cut += 3) {
      const auto folder = folders / (std::to_string(batches) + "-" + std::to_string(cut));
      {
        Tiny tiny;
        std::atomic<bool> stop = false;
        tiny.before_loss = [&](int64_t batch) { stop = stop || batch >= cut; };
        EXPECT_EQ(train(folder, tiny.learner, config, {}, &stop).why, Ended::interrupted);
      }
      Tiny tiny;
      train(folder, tiny.learner, config);
      SCOPED_TRACE(cut);
      expect_same_run(folder, whole);
    }
  }
}

TEST(Batches, of_a_step_are_part_of_a_run_and_one_where_nobody_said) {
  const Folder folders;
  const auto folder = folders / "run";
  Tiny tiny;
  train(folder, tiny.learner, config_of_batches(1, 2));
  EXPECT_TRUE(test::has(
      test::error_of([&] { train(folder, tiny.learner, config_of_batches(2, 4)); }), "batches 1"));
  TensorFile state = read_safetensors(folder / "state.safetensors");
  EXPECT_EQ(state.metadata.erase("run.batches"), 1u);
  save_safetensors(folder / "state.safetensors", state.tensors, state.metadata);
  EXPECT_EQ(train(folder, tiny.learner, config_of_batches(1, 4)).steps, 4);
  EXPECT_TRUE(test::has(
      test::error_of([&] { train(folders / "none", tiny.learner, config_of_batches(0, 4)); }),
      "batches must be positive, found 0"));
}

// Each batch begins with what the last step left; the mean of what they made of it stays.
TEST(Batches, leave_the_mean_of_their_running_statistics) {
  const Folder folders;
  Tensor w = Tensor::scalar(1.0f).set_requires_grad(), statistic = Tensor::scalar(8.0f);
  Learner learner;
  learner.parameters = {{"w", w}};
  learner.buffers = {{"statistic", statistic}};
  learner.lengths = {1, 1, 1, 1};
  std::vector<float> found;
  learner.loss = [&](std::span<const int64_t> batch, uint64_t) {
    found.push_back(statistic.item());
    statistic.fill_(0.5f * statistic.item() + 0.5f * static_cast<float>(batch[0]));
    return StepLoss{w * 1.0f, w.item(), 1};
  };
  TrainConfig config;
  config.batches = 4;
  config.batch_examples = 1;
  config.epochs = 1;
  train(folders / "run", learner, config);
  EXPECT_EQ(found, std::vector<float>(4, 8.0f));
  EXPECT_EQ(statistic.item(), 0.5f * 8.0f + 0.5f * 1.5f);
}

TEST(Batches, need_a_sum_for_each_level_of_the_tree) {
  TrainConfig config;
  const int64_t one = memory_of(1000, config);
  for (const auto& [batches, sums] : {std::pair{2, 1}, {3, 2}, {4, 2}, {5, 3}, {8, 3}, {9, 4}}) {
    config.batches = batches;
    EXPECT_EQ(memory_of(1000, config) - one, 4000 * sums) << batches;
  }
}

}  // namespace
}  // namespace fovea::train::tests
