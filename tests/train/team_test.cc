#include "tests/team/threads.h"
#include "tests/train/tiny.h"
#include "train/loop.h"

// Any number of ranks trains what one process does, bit for bit.
namespace fovea::train::tests {
namespace {

using team::Team;
using team::tests::Threads;
using team::tests::told;

// Tiny, a tensor of several blocks, one that only some batches have a gradient for, and a running
// statistic.
struct Shared : Tiny {
  Shared() {
    Tensor large = Tensor::randn({3, 17'000}, 9).set_requires_grad();
    Tensor rare = Tensor::randn({5}, 10).set_requires_grad();
    Tensor statistic = Tensor::full({2}, 1.0f);
    learner.parameters["large"] = large;
    learner.parameters["rare"] = rare;
    learner.buffers["statistic"] = statistic;
    const auto loss = learner.loss;
    learner.loss = [=](std::span<const int64_t> batch, uint64_t seed) {
      StepLoss l = loss(batch, seed);
      l.loss = l.loss + mean(square(dropout(large, 0.5f, seed)));
      if (batch[0] % 3 == 0) l.loss = l.loss + mean(square(rare));
      Tensor(statistic).mul_(0.9f).add_(Tensor::full({2}, static_cast<float>(batch[0])), 0.1f);
      return l;
    };
  }
};

TrainConfig shared_config(int64_t steps) {
  TrainConfig c = tiny_config();
  c.batches = 8;
  c.batch_tokens = 8;
  c.steps = steps;
  c.validate_every = 3;
  c.clip = 0.05f;
  return c;
}

struct Changes {
  std::function<void(Team&, Learner&)> learner = [](Team&, Learner&) {};
  std::function<void(Team&, TrainConfig&)> config = [](Team&, TrainConfig&) {};
  std::vector<const std::atomic<bool>*> stop = {};
};

// What each rank threw; their weights, which are the same.
std::vector<std::exception_ptr> run(const std::filesystem::path& folder, int ranks,
                                    const TrainConfig& config, const Changes& changes = {}) {
  std::filesystem::create_directories(folder);
  std::vector<Tensors> weights(static_cast<size_t>(ranks));
  Threads threads(ranks);
  const auto thrown = threads.run([&](Team& team) {
    const size_t me = static_cast<size_t>(team.rank());
    Shared model;
    changes.learner(team, model.learner);
    TrainConfig own = config;
    changes.config(team, own);
    std::optional<RunLog> log;
    if (team.is_first()) log.emplace(folder);
    train({.log = log ? &*log : nullptr,
           .team = team,
           .stop = changes.stop.empty() ? nullptr : changes.stop[me]},
          model.learner, own);
    weights[me] = copy_of(model.learner.parameters);
  });
  for (const Tensors& of_rank : weights) EXPECT_TRUE(same_bits(of_rank, weights[0]));
  return thrown;
}

void expect_done(const std::vector<std::exception_ptr>& thrown) {
  for (const auto& one : thrown) EXPECT_EQ(told(one), "");
}

TEST(TrainByTeam, gives_the_bits_of_one_process) {
  const Folder folders;
  for (const Method method : {Method::adamw, Method::sgd}) {
    TrainConfig config = shared_config(7);
    config.optimizer.method = method;
    config.average = method == Method::sgd ? 0.0f : 0.9f;
    const std::string of = name_of(method);
    Shared alone;
    train(folders / of, alone.learner, config);
    for (const int ranks : {1, 2, 3, 4, 8}) {
      SCOPED_TRACE(of + std::to_string(ranks));
      const auto folder = folders / (of + std::to_string(ranks));
      expect_done(run(folder, ranks, config));
      expect_same_run(folder, folders / of);
    }
  }
}

TEST(TrainByTeam, goes_on_with_any_number_of_ranks) {
  const Folder folders;
  const auto until = [](int64_t steps) {
    TrainConfig c = shared_config(steps);
    c.schedule = {.rate = 0.05f};  // whatever the limit
    return c;
  };
  expect_done(run(folders / "whole", 1, until(9)));
  const int ranks[] = {3, 1, 8, 2, 5};
  for (int64_t i = 0, step = 1; step <= 9; step += 2, ++i) {
    expect_done(run(folders / "parts", ranks[i], until(step)));
  }
  // A run that ends at other steps validates at them too: only what is learned is compared.
  const Tensors whole = load_safetensors(folders / "whole/state.safetensors");
  const Tensors parts = load_safetensors(folders / "parts/state.safetensors");
  EXPECT_TRUE(same_bits(whole, parts));
}

TEST(TrainByTeam, stops_for_all_when_any_is_asked_and_goes_on_to_the_same_bits) {
  const Folder folders;
  const TrainConfig config = shared_config(9);
  expect_done(run(folders / "whole", 1, config));
  for (int rank = 0; rank < 3; ++rank) {
    const auto folder = folders / std::to_string(rank);
    std::vector<std::atomic<bool>> stop(3);
    std::atomic<int64_t> batches = 0;
    Changes changes;
    for (const auto& one : stop) changes.stop.push_back(&one);
    changes.learner = [&](Team& team, Learner& learner) {
      if (team.rank() != rank) return;
      learner.loss = [&, loss = learner.loss](std::span<const int64_t> batch, uint64_t seed) {
        if (++batches == 7) stop[static_cast<size_t>(rank)] = true;
        return loss(batch, seed);
      };
    };
    expect_done(run(folder, 3, config, changes));
    const int64_t step =
        std::stoll(read_safetensors(folder / "state.safetensors").metadata["step"]);
    EXPECT_GT(step, 0);
    EXPECT_LT(step, 9);
    expect_done(run(folder, 2, config));
    expect_same_run(folder, folders / "whole");
  }
}

TEST(TrainByTeam, ends_for_all_where_one_fails_and_keeps_the_checkpoint) {
  const Folder folders;
  TrainConfig config = shared_config(9);
  config.save_every = 1;
  for (const bool in_loss : {true, false}) {
    const auto folder = folders / (in_loss ? "loss" : "throw");
    std::atomic<int64_t> batches = 0;
    Changes changes;
    changes.learner = [&](Team& team, Learner& learner) {
      if (team.rank() != 1) return;
      learner.loss = [&, in_loss, loss = learner.loss](std::span<const int64_t> batch,
                                                       uint64_t seed) {
        StepLoss l = loss(batch, seed);
        if (++batches < 9) return l;
        if (!in_loss) throw Error("batch", "cannot be read");
        l.total = std::numeric_limits<double>::quiet_NaN();
        return l;
      };
    };
    const auto thrown = run(folder, 3, config, changes);
    EXPECT_EQ(told(thrown[0]), "Elsewhere 2");
    EXPECT_TRUE(test::has(told(thrown[1]), in_loss ? "the loss is nan at step" : "cannot be read"));
    EXPECT_EQ(told(thrown[2]), "Elsewhere 2");
    EXPECT_NE(read_safetensors(folder / "state.safetensors").metadata.at("step"), "0");
  }
}

TEST(TrainByTeam, says_before_the_first_step_what_ranks_differ_in) {
  const Folder folders;
  const auto first_of = [&](const char* name, const Changes& changes) {
    const auto thrown = run(folders / name, 2, shared_config(3), changes);
    EXPECT_EQ(told(thrown[1]), "Elsewhere 2");
    EXPECT_FALSE(std::filesystem::exists(folders / name / "state.safetensors"));
    return told(thrown[0]);
  };
  Changes seed, data, weights;
  seed.config = [](Team& team, TrainConfig& c) { c.seed += static_cast<uint64_t>(team.rank()); };
  EXPECT_TRUE(test::has(first_of("seed", seed), "seed: rank 1 has 8, rank 0 has 7"));
  data.learner = [](Team& team, Learner& l) { l.lengths[3] += team.rank(); };
  EXPECT_TRUE(test::has(first_of("data", data), "lengths (hash): rank 1 has"));
  weights.learner = [](Team& team, Learner& l) {
    const NoGrad off;
    if (team.rank() == 1) l.parameters["bias"].fill_(1e-6f);
  };
  EXPECT_TRUE(test::has(first_of("weights", weights), "what a step computes: rank 1 has"));
}

TEST(TrainByTeam, of_more_ranks_than_batches_is_refused) {
  const Folder folders;
  TrainConfig config = shared_config(3);
  config.batches = 2;
  const auto thrown = run(folders / "run", 3, config);
  EXPECT_TRUE(test::has(told(thrown[0]), "--batches takes 3 or more")) << told(thrown[0]);
  EXPECT_EQ(told(thrown[2]), "Elsewhere 2");
}

TEST(TrainByTeam, stopped_within_a_validation_saves_what_was_before_it) {
  const Folder folders;
  const TrainConfig config = shared_config(9);
  expect_done(run(folders / "whole", 1, config));
  Changes changes;
  changes.learner = [&](Team&, Learner& learner) {
    learner.validate = []() -> Scores { throw Stopped(); };
  };
  expect_done(run(folders / "parts", 3, config, changes));
  EXPECT_EQ(read_safetensors(folders / "parts/state.safetensors").metadata.at("step"), "3");
  expect_done(run(folders / "parts", 2, config));
  expect_same_run(folders / "parts", folders / "whole");
}

}  // namespace
}  // namespace fovea::train::tests
