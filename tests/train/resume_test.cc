#include <fstream>
#include <numeric>

#include "fovea/nn.h"
#include "tests/on_device.h"
#include "tests/train/tiny.h"

// 2N steps against N + resume + N: weights, moments, averages, best weights and log are bit-equal.
namespace fovea::train::tests {
namespace {

struct Interruption {};

TrainConfig resumed_config(int64_t steps) {
  TrainConfig c = tiny_config();
  c.steps = steps;
  c.validate_every = 5;
  return c;
}

Finished run(const std::filesystem::path& folder, const TrainConfig& config) {
  Tiny tiny;
  return train(folder, tiny.learner, config);
}

// Lets a step finish and stops.
Ended run_until(const std::filesystem::path& folder, const TrainConfig& config, int64_t steps) {
  Tiny tiny;
  std::atomic<bool> stop = steps == 0;
  tiny.before_loss = [&](int64_t step) { stop = step == steps; };
  return train(folder, tiny.learner, config, {}, &stop).why;
}

// Ends in the midst of a step, as if killed.
void run_killed_in(const std::filesystem::path& folder, const TrainConfig& config, int64_t steps) {
  Tiny tiny;
  tiny.before_loss = [&](int64_t step) {
    if (step == steps) throw Interruption();
  };
  EXPECT_THROW(train(folder, tiny.learner, config), Interruption);
}

// Steps of an epoch of Tiny's.
int64_t epoch_steps() {
  const Tiny tiny;
  const auto batches = batches_of_epoch(tiny.learner.lengths, tiny_config(), 0);
  return static_cast<int64_t>(batches.size());
}

TEST(Resume, is_bit_equal_wherever_the_run_was_stopped) {
  const Folder folders;
  const TrainConfig config = resumed_config(24);
  ASSERT_GT(epoch_steps(), 2);
  ASSERT_LT(epoch_steps(), 12);  // stops lie before, at and after its edge
  run(folders / "whole", config);
  for (int64_t cut = 0; cut < 24; ++cut) {
    const auto folder = folders / std::to_string(cut);
    EXPECT_EQ(run_until(folder, config, cut), Ended::interrupted);
    EXPECT_EQ(run(folder, config).steps, 24);
    SCOPED_TRACE(cut);
    expect_same_run(folder, folders / "whole");
  }
}

TEST(Resume, is_bit_equal_wherever_the_run_was_killed) {
  const Folder folders;
  for (const int64_t save_every : {0, 1, 4}) {
    TrainConfig config = resumed_config(24);
    config.save_every = save_every;
    const auto whole = folders / ("whole" + std::to_string(save_every));
    run(whole, config);
    for (int64_t cut = 1; cut <= 24; cut += save_every == 1 ? 5 : 1) {
      const auto folder = folders / (std::to_string(save_every) + "-" + std::to_string(cut));
      run_killed_in(folder, config, cut);
      run(folder, config);
      SCOPED_TRACE(cut);
      expect_same_run(folder, whole);
    }
  }
}

TEST(Resume, is_bit_equal_after_many_stops_and_without_averages) {
  const Folder folders;
  TrainConfig config = resumed_config(20);
  config.average = 0;
  config.validate_every = 0;  // at the edges of epochs
  config.optimizer = {.method = Method::sgd, .momentum = 0.8f};
  config.schedule = {.decay = Decay::plateau, .rate = 3.0f, .patience = 1};
  run(folders / "whole", config);
  while (run_until(folders / "parts", config, 1) == Ended::interrupted) {
  }
  expect_same_run(folders / "parts", folders / "whole");
  const auto state = read_safetensors(folders / "whole" / "state.safetensors");
  EXPECT_NE(state.metadata.at("reductions"), "0");
}

TEST(Resume, at_the_edge_of_an_epoch_goes_on_with_the_next_order) {
  const Folder folders;
  TrainConfig config = tiny_config();
  config.epochs = 3;
  config.schedule.decay = Decay::constant;
  const auto order_of = [&](const std::filesystem::path& folder, const TrainConfig& c) {
    Tiny tiny;
    std::vector<std::vector<int64_t>> order;
    const auto loss = tiny.learner.loss;
    tiny.learner.loss = [&](std::span<const int64_t> batch, uint64_t seed) {
      order.emplace_back(batch.begin(), batch.end());
      return loss(batch, seed);
    };
    train(folder, tiny.learner, c);
    return order;
  };
  const auto whole = order_of(folders / "whole", config);
  TrainConfig first = config;
  first.epochs = 1;
  auto parts = order_of(folders / "parts", first);
  const auto rest = order_of(folders / "parts", config);
  EXPECT_NE(std::vector(rest.begin(), rest.begin() + parts.size()), parts);
  parts.insert(parts.end(), rest.begin(), rest.end());
  EXPECT_EQ(parts, whole);
  expect_same_run(folders / "parts", folders / "whole");
  const auto state = read_safetensors(folders / "parts" / "state.safetensors");
  EXPECT_EQ(state.metadata.at("seen"), "69");  // three times 23
}

TEST(Resume, makes_the_best_weights_again_when_only_the_state_was_saved) {
  const Folder folders;
  const TrainConfig config = resumed_config(20);
  run(folders / "whole", config);
  for (const bool older : {false, true}) {
    const auto folder = folders / (older ? "older" : "none");
    run_until(folder, config, 9);
    const auto model = folder / "model.safetensors";
    const std::string before = read_bytes(model);
    run_until(folder, config, 1);
    run_until(folder, config, 1);  // past the validation of step 10
    const auto state = read_safetensors(folder / "state.safetensors").metadata;
    ASSERT_EQ(state.at("step"), "11");
    ASSERT_EQ(state.at("best_step"), "10");
    ASSERT_NE(read_bytes(model), before);
    // The state of step 11 cannot make them again: that is said.
    std::filesystem::remove(model);
    EXPECT_THROW(run(folder, config), Error);
    // That of step 10 can.
    std::filesystem::remove_all(folder);
    run_until(folder, config, 9);
    Tiny tiny;
    std::atomic<bool> stop = false;
    const auto report = [&](const Progress& p) { stop = p.validated != nullptr; };
    EXPECT_EQ(train(folder, tiny.learner, config, report, &stop).steps, 10);
    std::filesystem::remove(model);
    if (older) std::ofstream(model, std::ios::binary) << before;
    run(folder, config);
    expect_same_run(folder, folders / "whole");
  }
}

// A learner with running statistics, which every pass moves and validation judges by.
struct Normed {
  nn::Weights weights{3};
  Tensor gain = weights.add("norm.weight", {4}, nn::Init::uniform);
  Tensor shift = weights.add("norm.bias", {4}, nn::Init::zeros);
  Tensor out = weights.add("out", {4, 1}, nn::Init::xavier);
  BatchNorm norm{weights.add_buffer("norm.running_mean", {4}, 0.0f),
                 weights.add_buffer("norm.running_var", {4}, 1.0f)};
  Learner learner;

  Normed() {
    learner.parameters = weights.learned();
    learner.buffers = weights.buffers();
    learner.lengths.assign(20, 1);
    learner.loss = [this](std::span<const int64_t> batch, uint64_t) {
      const Tensor l = loss(batch, Mode::train);
      return StepLoss{l, l.item(), 1};
    };
    learner.validate = [this] {
      std::vector<int64_t> all(20);
      std::iota(all.begin(), all.end(), 0);
      return Scores{{"loss", loss(all, Mode::eval).item()}};
    };
  }
  Normed(const Normed&) = delete;
  Normed& operator=(const Normed&) = delete;

  Tensor loss(std::span<const int64_t> batch, Mode mode) {
    const int64_t B = static_cast<int64_t>(batch.size());
    const Tensor x =
        index_select(Tensor::randn({20, 4}, 9) * 3.0f + 1.0f, 0, Tensor::from_ids(batch, {B}));
    return mean(
        square(matmul(batch_norm(x, gain, shift, norm, mode), out) - sum(tanh(x), {1}, Keep::yes)));
  }
};

TEST(Resume, is_bit_equal_with_running_statistics) {
  const Folder folders;
  TrainConfig config = resumed_config(24);
  config.batch_tokens = 6;
  Normed whole;
  const Finished finished = train(folders / "whole", whole.learner, config);
  for (const int64_t cut : {1, 4, 5, 13, 20, 23}) {
    SCOPED_TRACE(cut);
    const auto folder = folders / std::to_string(cut);
    TrainConfig first = config;
    first.save_every = 1;
    {
      Normed part;
      std::atomic<bool> stop = false;
      int64_t steps = 0;
      const auto loss = part.learner.loss;
      part.learner.loss = [&](std::span<const int64_t> batch, uint64_t seed) {
        stop = ++steps == cut;
        return loss(batch, seed);
      };
      EXPECT_EQ(train(folder, part.learner, first, {}, &stop).why, Ended::interrupted);
      const Tensors state = load_safetensors(folder / "state.safetensors");
      EXPECT_EQ(state.at("buffers/norm.running_mean").to_vector(),
                part.norm.running_mean.to_vector());
    }
    Normed rest;
    train(folder, rest.learner, config);
    expect_same_run(folder, folders / "whole");
    EXPECT_TRUE(same_bits(rest.weights.all(), whole.weights.all()));
  }
  // The best weights come with the statistics of their step, and judge as they did then.
  EXPECT_NE(whole.norm.running_mean.to_vector(), std::vector<float>(4, 0.0f));
  const Tensors kept = load_safetensors(folders / "whole" / "model.safetensors");
  EXPECT_TRUE(same_bits(kept, whole.weights.all()));
  EXPECT_FLOAT_EQ(whole.learner.validate()[0].second, finished.best[0].second);
  Normed loaded;
  loaded.weights.load(kept);
  EXPECT_FLOAT_EQ(loaded.learner.validate()[0].second, finished.best[0].second);
}

// Averages are of what is learned; statistics are those of the last pass.
TEST(Resume, averages_pass_buffers_by) {
  const Folder folders;
  TrainConfig config = resumed_config(7);
  config.average = 0.9f;
  config.validate_every = 7;
  Normed n;
  std::vector<float> mean_then;
  const auto validate = n.learner.validate;
  n.learner.validate = [&] {
    mean_then = n.norm.running_mean.to_vector();
    return validate();
  };
  train(folders / "run", n.learner, config);
  const Tensors state = load_safetensors(folders / "run" / "state.safetensors");
  EXPECT_FALSE(state.contains("average/norm.running_mean"));
  EXPECT_TRUE(state.contains("average/norm.weight"));
  EXPECT_EQ(state.at("buffers/norm.running_mean").to_vector(), mean_then);
  EXPECT_EQ(n.norm.running_mean.to_vector(), mean_then);
}

TEST(Resume, of_a_state_without_its_buffers_is_refused) {
  const Folder folders;
  const TrainConfig config = resumed_config(4);
  Normed n;
  Learner without = n.learner;
  without.buffers.clear();
  train(folders / "run", without, config);
  EXPECT_THROW(train(folders / "run", n.learner, config), Error);
  n.learner.buffers["out"] = Tensor::zeros({1});
  EXPECT_THROW(train(folders / "other", n.learner, config), Error);
}

TEST(Resume, of_a_finished_run_returns_at_once) {
  const Folder folders;
  TrainConfig config = resumed_config(12);
  const Finished first = run(folders / "run", config);
  Tiny tiny;
  const std::string state = read_bytes(folders / "run" / "state.safetensors");
  const Finished again = train(folders / "run", tiny.learner, config);
  EXPECT_EQ(tiny.steps, 0);
  EXPECT_EQ(tiny.validations, 0);
  EXPECT_EQ(again.why, Ended::finished);
  EXPECT_EQ(again.steps, first.steps);
  EXPECT_EQ(again.epochs, first.epochs);
  EXPECT_EQ(again.best, first.best);
  EXPECT_EQ(again.best_step, first.best_step);
  EXPECT_GT(again.seconds, 0.0);
  EXPECT_LE(again.seconds, test::slack() * first.seconds);
  EXPECT_EQ(read_bytes(folders / "run" / "state.safetensors"), state);
  EXPECT_TRUE(
      same_bits(tiny.learner.parameters, load_safetensors(folders / "run" / "model.safetensors")));
  config.steps = 15;
  EXPECT_EQ(train(folders / "run", tiny.learner, config).steps, 15);
  EXPECT_EQ(tiny.steps, 3);
}

TEST(Resume, of_another_run_is_refused_and_changes_nothing) {
  const Folder folders;
  const TrainConfig config = resumed_config(6);
  const auto folder = folders / "run";
  run(folder, config);
  const std::string state = read_bytes(folder / "state.safetensors");
  const std::string log = read_bytes(folder / "log.jsonl");
  const auto refused = [&](const TrainConfig& c, Learner& learner, const std::string& what) {
    try {
      train(folder, learner, c);
      FAIL() << "accepted another " << what;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
    EXPECT_EQ(read_bytes(folder / "state.safetensors"), state);
    EXPECT_EQ(read_bytes(folder / "log.jsonl"), log);
  };
  Tiny tiny;
  TrainConfig other = config;
  other.seed = 8;
  refused(other, tiny.learner, "seed");
  other = config;
  other.batch_tokens = 30;
  refused(other, tiny.learner, "batch_tokens");
  other = config;
  other.like_lengths = false;
  refused(other, tiny.learner, "lengths in a batch alike");
  other = config;
  other.optimizer.method = Method::sgd;
  refused(other, tiny.learner, "method");
  Tiny larger(24);
  refused(config, larger.learner, "examples");
  tiny.learner.parameters["bias"] = Tensor::zeros({5}).set_requires_grad();
  refused(config, tiny.learner, "bias");
  std::ofstream(folder / "state.safetensors", std::ios::binary) << state.substr(0, 100);
  Tiny fresh;
  EXPECT_THROW(train(folder, fresh.learner, config), Error);
}

// Numbers that no run comes to: a damaged file, whose step would be read from beyond the batches.
TEST(Resume, of_a_state_with_impossible_counts_is_refused) {
  const Folder folders;
  const auto folder = folders / "run", state = folder / "state.safetensors";
  run_until(folder, resumed_config(24), 2);
  const std::string good = read_bytes(state), log = read_bytes(folder / "log.jsonl");
  const TensorFile whole = read_safetensors(state);
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"position", "99999"},
                                                        {"position", "-3"},
                                                        {"step", "-5"},
                                                        {"step", "9223372036854775807"},
                                                        {"epoch", "-1"},
                                                        {"log_bytes", "-1"},
                                                        {"reductions", "-9"}}) {
    SCOPED_TRACE(name + " " + value);
    Metadata metadata = whole.metadata;
    metadata[name] = value;
    save_safetensors(state, whole.tensors, metadata);
    const std::string error = test::error_of([&] { run(folder, resumed_config(24)); });
    EXPECT_TRUE(test::has(error, "state.safetensors is damaged")) << error;
    EXPECT_EQ(read_bytes(folder / "log.jsonl"), log);
  }
  test::write_bytes(state, good);
  EXPECT_EQ(run(folder, resumed_config(24)).steps, 24);
}

// States of former versions, whose batches were all of like lengths, do not say so.
TEST(Resume, of_a_state_that_does_not_tell_of_lengths_goes_on_with_like_ones) {
  const Folder folders;
  TrainConfig config = resumed_config(20);
  run(folders / "whole", config);
  run_until(folders / "run", config, 7);
  TensorFile state = read_safetensors(folders / "run/state.safetensors");
  EXPECT_EQ(state.metadata.erase("run.lengths in a batch"), 1u);
  save_safetensors(folders / "run/state.safetensors", state.tensors, state.metadata);
  config.like_lengths = false;
  EXPECT_THROW(run(folders / "run", config), Error);
  config.like_lengths = true;
  run(folders / "run", config);
  expect_same_run(folders / "run", folders / "whole");
}

TEST(Resume, is_bit_equal_with_batches_of_any_lengths) {
  const Folder folders;
  TrainConfig config = resumed_config(20);
  run(folders / "alike", config);
  config.like_lengths = false;
  run(folders / "whole", config);
  EXPECT_NE(read_bytes(folders / "whole/log.jsonl"), read_bytes(folders / "alike/log.jsonl"));
  run_until(folders / "run", config, 7);
  run(folders / "run", config);
  expect_same_run(folders / "run", folders / "whole");
}

TEST(Resume, is_bit_equal_at_any_number_of_threads) {
  const Folder folders;
  const int before = threads();
  const TrainConfig config = resumed_config(20);
  set_threads(1);
  run(folders / "one", config);
  set_threads(3);
  run_until(folders / "three", config, 7);
  run(folders / "three", config);
  set_threads(before);
  expect_same_run(folders / "one", folders / "three");
}

}  // namespace
}  // namespace fovea::train::tests
