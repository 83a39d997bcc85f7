#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/train/tiny.h"

namespace fovea::train::tests {
namespace {

using nlohmann::json;
using test::error_of;
using test::has;

std::vector<json> log_of(const std::filesystem::path& folder) {
  std::vector<json> lines;
  std::ifstream in(folder / "log.jsonl");
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  return lines;
}

// Scores as listed, whatever the weights; the last one for ever.
void judge_by(Tiny& tiny, std::vector<double> scores) {
  tiny.learner.validate = [&tiny, scores] {
    const size_t i = static_cast<size_t>(tiny.validations++);
    return Scores{{"accuracy", scores[std::min(i, scores.size() - 1)]}};
  };
  tiny.learner.watch = "accuracy";
  tiny.learner.higher_is_better = true;
}

TEST(Train, learns) {
  const Folder folders;
  Tiny tiny;
  TrainConfig config = tiny_config();
  config.epochs = 40;
  const double before = tiny.learner.validate()[0].second;
  const Finished finished = train(folders / "run", tiny.learner, config);
  EXPECT_EQ(finished.why, Ended::finished);
  EXPECT_EQ(finished.epochs, 40);
  ASSERT_EQ(finished.best.size(), 1u);
  EXPECT_LT(finished.best[0].second, before / 2);  // of five seeds: 0.23 to 0.31 of it
  // The best weights, averages here, are in place.
  EXPECT_FLOAT_EQ(tiny.learner.validate()[0].second, finished.best[0].second);
  for (const auto& [name, tensor] : tiny.learner.parameters) EXPECT_FALSE(tensor.grad());
}

// A line has the mean since the line before: total over count, not the mean of the steps' means.
TEST(Train, logs_losses_per_token_rates_and_scores) {
  const Folder folders;
  Tiny tiny;
  std::vector<double> totals = {0}, counts = {0};  // by step, summed
  const auto loss = tiny.learner.loss;
  tiny.learner.loss = [&](std::span<const int64_t> batch, uint64_t seed) {
    const StepLoss l = loss(batch, seed);
    totals.push_back(totals.back() + l.total);
    counts.push_back(counts.back() + l.count);
    return l;
  };
  std::vector<double> scores;
  const auto validate = tiny.learner.validate;
  tiny.learner.validate = [&] {
    Scores s = validate();
    scores.push_back(s[0].second);
    return s;
  };
  TrainConfig config = tiny_config();
  config.steps = 160;
  config.validate_every = 110;
  const size_t batches = batches_of_epoch(tiny.learner.lengths, config, 0).size();
  train(folders / "run", tiny.learner, config);
  std::vector<size_t> steps, validated;
  size_t before = 0;
  for (const json& line : log_of(folders / "run")) {
    const size_t step = line["step"];
    if (line.contains("valid")) {
      ASSERT_LT(validated.size(), scores.size());
      EXPECT_EQ(line["valid"], (json{{"loss", scores[validated.size()]}}));
      validated.push_back(step);
      continue;
    }
    const double mean = (totals[step] - totals[before]) / (counts[step] - counts[before]);
    EXPECT_NEAR(line["loss"].get<double>(), mean, 1e-6 * mean) << step;
    EXPECT_EQ(line["rate"].get<float>(),
              rate_at(config.schedule, static_cast<int64_t>(step), (step - 1) / 160.0, 0));
    if (step < batches) {
      EXPECT_EQ(line["epoch"], 1);
    }
    before = step;
    steps.push_back(step);
  }
  EXPECT_EQ(steps, (std::vector<size_t>{1, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 150}));
  EXPECT_EQ(validated, (std::vector<size_t>{110, 160}));
  EXPECT_GT(*std::max_element(scores.begin(), scores.end()), 0.0);
}

// At step 1 by hand: the loss is w·c, so the gradient's norm is |c|, whatever clipping does to it.
TEST(Train, logs_the_norm_before_clipping_and_the_epoch) {
  const Folder folders;
  Tensor w = Tensor::from({2.0f, 1.0f}, {2}).set_requires_grad();
  Learner learner;
  learner.parameters = {{"w", w}};
  learner.lengths = {1, 1, 1};
  learner.loss = [&](std::span<const int64_t>, uint64_t) {
    const Tensor l = sum(w * Tensor::from({3.0f, 4.0f}, {2}));
    return StepLoss{l, 2.0 * l.item(), 2};
  };
  TrainConfig config;
  config.optimizer = {.method = Method::sgd, .momentum = 0.0f};
  config.schedule.rate = 0.5f;
  config.clip = 1.0f;
  config.batch_tokens = 1;
  config.steps = 10;
  train(folders / "run", learner, config);
  const std::vector<json> log = log_of(folders / "run");
  EXPECT_FLOAT_EQ(log[0]["grad_norm"].get<float>(), 5.0f);
  EXPECT_FLOAT_EQ(log[0]["loss"].get<float>(), 10.0f);
  EXPECT_EQ(log[0]["epoch"], 1);
  for (const json& line : log) {
    if (line["step"] == 10 && line.contains("loss")) {
      EXPECT_EQ(line["epoch"], 4);  // of three steps each
      // A clipped step takes 0.5·(3, 4)/5 off w, and 2.5 off the loss: steps 2 to 10, 7.5 … −12.5.
      EXPECT_NEAR(line["loss"].get<double>(), -2.5, 1e-5);
    }
  }
  EXPECT_NEAR(w.to_vector()[0], 2.0f - 10 * 0.3f, 1e-5f);
}

TEST(Train, validates_with_averages_and_puts_the_weights_back) {
  const Folder folders;
  // By hand: w ← w − rate·1 each step; average as documented.
  Tensor w = Tensor::scalar(1.0f).set_requires_grad();
  Learner learner;
  learner.parameters = {{"w", w}};
  learner.lengths = {1};
  std::vector<float> trained, judged;
  learner.loss = [&](std::span<const int64_t>, uint64_t) {
    trained.push_back(w.item());
    return StepLoss{w * 1.0f, w.item(), 1};
  };
  learner.validate = [&] {
    judged.push_back(w.item());
    return Scores{{"loss", -static_cast<double>(judged.size())}};
  };
  TrainConfig config;
  config.optimizer = {.method = Method::sgd, .momentum = 0.0f};
  config.schedule.rate = 0.125f;
  config.clip = 0;
  config.average = 0.5f;
  config.steps = 12;
  config.validate_every = 1;
  train(folders / "run", learner, config);
  double average = 1;
  for (int t = 1; t <= 12; ++t) {
    const double value = 1 - 0.125 * t;
    const double d = std::min(0.5, (1.0 + t) / (10.0 + t));
    average = d * average + (1 - d) * value;
    if (t < 12) {
      EXPECT_FLOAT_EQ(trained[t], static_cast<float>(value));
    }
    EXPECT_NEAR(judged[t - 1], average, 1e-6);
  }
  EXPECT_EQ(w.item(), judged.back());
  const auto state = load_safetensors(folders / "run" / "state.safetensors");
  EXPECT_FLOAT_EQ(state.at("weights/w").item(), -0.5f);
}

// What stands at its path after a move is somebody else's.
TEST(Train, writes_nothing_where_its_folder_was) {
  const Folder folders;
  const std::filesystem::path run = folders / "run", moved = folders / "moved";
  Tiny tiny;
  TrainConfig config = tiny_config();
  config.epochs = 4;
  int reports = 0;
  const auto move = [&](const Progress& p) {
    if (p.validated == nullptr || ++reports != 2) return;
    std::filesystem::rename(run, moved);
    std::filesystem::create_directory(run);
    for (const char* file : {"model.safetensors", "state.safetensors", "log.jsonl"}) {
      std::ofstream(run / file) << "another run's";
    }
  };
  EXPECT_TRUE(has(error_of([&] { train(run, tiny.learner, config, move); }), "was moved"));
  for (const char* file : {"model.safetensors", "state.safetensors", "log.jsonl"}) {
    EXPECT_EQ(test::read_bytes(run / file), "another run's") << file;
  }
}

TEST(Train, keeps_the_best_weights) {
  const Folder folders;
  Tiny tiny;
  judge_by(tiny, {0.1, 0.5, 0.3, std::numeric_limits<double>::quiet_NaN(), 0.4});
  std::vector<Tensors> at;
  const auto validate = tiny.learner.validate;
  tiny.learner.validate = [&] {
    at.push_back(copy_of(tiny.learner.parameters));
    return validate();
  };
  TrainConfig config = tiny_config();
  config.steps = 10;
  config.validate_every = 2;
  const Finished finished = train(folders / "run", tiny.learner, config);
  EXPECT_EQ(finished.best_step, 4);
  EXPECT_EQ(finished.best, (Scores{{"accuracy", 0.5}}));
  EXPECT_EQ(tiny.validations, 5);
  EXPECT_TRUE(same_bits(tiny.learner.parameters, at[1]));
  EXPECT_TRUE(same_bits(load_safetensors(folders / "run" / "model.safetensors"), at[1]));
  EXPECT_TRUE(log_of(folders / "run")[4]["valid"]["accuracy"].is_null());
}

TEST(Train, keeps_the_last_weights_where_told) {
  const Folder folders;
  Tiny tiny;
  judge_by(tiny, {0.1, 0.5, 0.3});
  TrainConfig config = tiny_config();
  config.steps = 6;
  config.validate_every = 2;
  config.keep = Kept::last;
  const Finished finished = train(folders / "run", tiny.learner, config);
  EXPECT_EQ(finished.best_step, 6);
  EXPECT_EQ(finished.best, (Scores{{"accuracy", 0.3}}));
}

TEST(Train, without_validation_keeps_the_last_weights) {
  const Folder folders;
  Tiny tiny;
  tiny.learner.validate = {};
  TrainConfig config = tiny_config();
  config.steps = 7;
  const Finished finished = train(folders / "run", tiny.learner, config);
  EXPECT_EQ(finished.best_step, 7);
  EXPECT_TRUE(finished.best.empty());
}

TEST(Train, lowers_the_rate_on_plateaus_and_stops_early) {
  const Folder folders;
  Tiny tiny;
  judge_by(tiny, {0.1, 0.2, 0.2, 0.1, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3});
  TrainConfig config = tiny_config();
  config.schedule = {.decay = Decay::plateau, .rate = 0.08f, .factor = 0.5f, .patience = 2};
  config.steps = 1000;
  config.validate_every = 1;
  config.stop_after = 5;
  std::vector<float> rates;
  const Finished finished = train(folders / "run", tiny.learner, config, [&](const Progress& p) {
    if (p.validated != nullptr) rates.push_back(p.rate);
  });
  EXPECT_EQ(finished.why, Ended::stopped_early);
  EXPECT_EQ(finished.steps, 10);
  EXPECT_EQ(finished.best_step, 5);
  EXPECT_EQ(rates, (std::vector<float>{0.08f, 0.08f, 0.08f, 0.08f, 0.04f, 0.04f, 0.04f, 0.02f,
                                       0.02f, 0.01f}));
  Tiny again;
  judge_by(again, {0.9});
  EXPECT_EQ(train(folders / "run", again.learner, config).why, Ended::stopped_early);
  EXPECT_EQ(again.steps, 0);
}

TEST(Train, stops_at_a_loss_or_gradient_that_is_not_finite) {
  const Folder folders;
  TrainConfig config = tiny_config();
  config.steps = 20;
  config.save_every = 3;
  for (const bool in_loss : {true, false}) {
    const auto folder = folders / (in_loss ? "loss" : "gradient");
    Tiny tiny;
    const auto loss = tiny.learner.loss;
    Tensors before;
    tiny.learner.loss = [&](std::span<const int64_t> batch, uint64_t seed) {
      StepLoss l = loss(batch, seed);
      if (tiny.steps != 8) return l;
      before = copy_of(tiny.learner.parameters);
      // d√x/dx at 0 is infinite
      l.loss = in_loss ? l.loss * std::numeric_limits<float>::quiet_NaN()
                       : l.loss + sum(sqrt(tiny.at("bias") * 0.0f));
      return l;
    };
    const std::string message = error_of([&] { train(folder, tiny.learner, config); });
    EXPECT_TRUE(has(message, in_loss ? "the loss is nan at step 8" : "gradient's norm is"))
        << message;
    EXPECT_TRUE(has(message, "last checkpoint (step 6) is kept")) << message;
    EXPECT_TRUE(same_bits(before, tiny.learner.parameters));
    EXPECT_EQ(read_safetensors(folder / "state.safetensors").metadata.at("step"), "6");
    Tiny healthy;
    EXPECT_EQ(train(folder, healthy.learner, config).steps, 20);
    EXPECT_EQ(healthy.steps, 14);
  }
}

TEST(Train, gives_each_step_a_seed_of_its_own) {
  const Folder folders;
  const auto seeds_of = [&](const std::string& name, uint64_t seed) {
    Tiny tiny;
    std::vector<uint64_t> seeds;
    const auto loss = tiny.learner.loss;
    tiny.learner.loss = [&](std::span<const int64_t> batch, uint64_t s) {
      seeds.push_back(s);
      return loss(batch, s);
    };
    TrainConfig config = tiny_config();
    config.seed = seed;
    config.steps = 9;
    train(folders / name, tiny.learner, config);
    return seeds;
  };
  const auto seeds = seeds_of("a", 1);
  EXPECT_EQ(std::set(seeds.begin(), seeds.end()).size(), 9u);
  EXPECT_EQ(seeds_of("b", 1), seeds);
  EXPECT_NE(seeds_of("c", 2), seeds);
}

TEST(Train, tells_before_each_step_how_much_is_done) {
  const Folder folders;
  std::vector<double> told;
  const auto run = [&](int64_t stop_at) {
    Tiny tiny;
    std::atomic<bool> stop = false;
    tiny.before_loss = [&](int64_t step) { stop = step == stop_at; };
    tiny.learner.before_step = [&](double done) {
      EXPECT_EQ(std::ssize(told), stop_at == 3 ? tiny.steps : 3 + tiny.steps);
      told.push_back(done);
    };
    TrainConfig config = tiny_config();
    config.steps = 8;
    train(folders / "run", tiny.learner, config, {}, &stop);
  };
  run(3);   // stopped after three steps …
  run(-1);  // … and gone on with
  ASSERT_EQ(told.size(), 8u);
  for (size_t i = 0; i < told.size(); ++i) EXPECT_EQ(told[i], static_cast<double>(i) / 8);
}

TEST(Train, stops_when_told_and_says_so) {
  const Folder folders;
  Tiny tiny;
  std::atomic<bool> stop = true;
  TrainConfig config = tiny_config();
  config.epochs = 2;
  EXPECT_EQ(train(folders / "run", tiny.learner, config, {}, &stop).why, Ended::interrupted);
  EXPECT_EQ(tiny.steps, 0);
  stop = false;
  tiny.before_loss = [&](int64_t step) { stop = step == 2; };
  const Finished finished = train(folders / "run", tiny.learner, config, {}, &stop);
  EXPECT_EQ(finished.why, Ended::interrupted);
  EXPECT_EQ(finished.steps, 2);
  EXPECT_EQ(read_safetensors(folders / "run" / "state.safetensors").metadata.at("step"), "2");
}

TEST(Train, ends_after_its_minutes_over_all_resumptions) {
  const Folder folders;
  TrainConfig config = tiny_config();
  config.minutes = 0.6 / 60;
  double done = 0, left = 0;
  int reports = 0;
  Tiny tiny;
  std::atomic<bool> stop = false;
  const auto report = [&](const Progress& p) {
    done = p.done;
    left = p.seconds_left;
    reports += p.validated == nullptr;
    stop = p.seconds > 0.3 && !stop;
  };
  const Finished part = train(folders / "run", tiny.learner, config, report, &stop);
  EXPECT_EQ(part.why, Ended::interrupted);
  EXPECT_GT(done, 0.4);
  EXPECT_GT(left, 0);
  EXPECT_GT(reports, 0);
  const Finished whole = train(folders / "run", tiny.learner, config);
  EXPECT_EQ(whole.why, Ended::finished);
  EXPECT_GE(whole.seconds, 0.6);
  EXPECT_LT(whole.seconds, reduced() ? 10 : 3);
  EXPECT_GT(whole.steps, part.steps);
  const Finished again = train(folders / "run", tiny.learner, config);
  EXPECT_EQ(again.steps, whole.steps);
}

// As if a validation were long, and asked to break off: the run is as it was before it.
TEST(Train, a_validation_that_is_broken_off_is_made_again) {
  const Folder folders;
  TrainConfig config = tiny_config();
  config.steps = 12;
  config.validate_every = 4;
  Tiny whole;
  train(folders / "whole", whole.learner, config);

  Tiny cut;
  std::atomic<bool> stop = false;
  cut.learner.validate = [&]() -> Scores {
    stop = true;
    throw Stopped{};
  };
  const Finished part = train(folders / "cut", cut.learner, config, {}, &stop);
  EXPECT_EQ(part.why, Ended::interrupted);
  EXPECT_EQ(part.steps, 4);
  EXPECT_EQ(read_safetensors(folders / "cut" / "state.safetensors").metadata.at("step"), "4");

  Tiny rest;
  EXPECT_EQ(train(folders / "cut", rest.learner, config).why, Ended::finished);
  EXPECT_TRUE(same_bits(rest.learner.parameters, whole.learner.parameters));
  EXPECT_EQ(read_bytes(folders / "cut" / "log.jsonl"), read_bytes(folders / "whole" / "log.jsonl"));
}

TEST(Train, reports_where_it_stands) {
  const Folder folders;
  Tiny tiny;
  tiny.learner.unit = "pears";
  TrainConfig config = tiny_config();
  config.epochs = 2;
  std::vector<Progress> all;
  train(folders / "run", tiny.learner, config, [&](const Progress& p) {
    if (p.validated == nullptr) return;
    EXPECT_EQ((*p.validated)[0].first, "loss");
    all.push_back(p);
  });
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].epoch, 1);
  EXPECT_EQ(all[1].epoch, 2);
  EXPECT_EQ(all[1].batch, all[1].batches);
  EXPECT_DOUBLE_EQ(all[0].done, 0.5);
  EXPECT_DOUBLE_EQ(all[1].done, 1.0);
  EXPECT_TRUE(all[0].better);
  EXPECT_GT(all[1].loss, 0);
  EXPECT_GT(all[1].units_per_second, 0);
  EXPECT_EQ(all[1].unit, "pears");
  EXPECT_GT(all[0].seconds_left, 0);
  EXPECT_EQ(all[1].seconds_left, 0);
}

TEST(Train, takes_no_more_memory_as_it_goes_on) {
  const Folder folders;
  Tiny tiny;
  TrainConfig config = tiny_config();
  config.epochs = 12;
  config.save_every = 3;
  std::vector<int64_t> in_use;
  train(folders / "run", tiny.learner, config, [&](const Progress& p) {
    if (p.validated != nullptr) in_use.push_back(memory_in_use());
  });
  ASSERT_EQ(in_use.size(), 12u);
  for (const int64_t bytes : in_use) EXPECT_EQ(bytes, in_use[0]);
}

TEST(Train, says_what_it_needs) {
  const Folder folders;
  const auto message = [&](const std::function<void(Tiny&, TrainConfig&)>& change) {
    Tiny tiny;
    TrainConfig config = tiny_config();
    config.steps = 2;
    change(tiny, config);
    return error_of([&] { train(folders / "run", tiny.learner, config); });
  };
  EXPECT_TRUE(has(message([](Tiny&, TrainConfig& c) { c.steps = 0; }), "minutes"));
  EXPECT_TRUE(has(message([](Tiny&, TrainConfig& c) { c.schedule.rate = 0; }), "rate"));
  EXPECT_TRUE(has(message([](Tiny&, TrainConfig& c) { c.average = 1; }), "average"));
  EXPECT_TRUE(has(message([](Tiny&, TrainConfig& c) {
                    c.keep = Kept::last;
                    c.stop_after = 2;
                  }),
                  "keep the best"));
  EXPECT_TRUE(
      has(message([](Tiny& t, TrainConfig&) { t.learner.lengths.clear(); }), "no examples"));
  EXPECT_TRUE(has(message([](Tiny& t, TrainConfig&) { t.learner.watch = "bleu"; }),
                  "no score 'bleu' to watch, but loss"));
  EXPECT_FALSE(std::filesystem::exists(folders / "run" / "model.safetensors"));
  EXPECT_TRUE(has(error_of([&] {
                    Tiny tiny;
                    TrainConfig c = tiny_config();
                    c.steps = 1;
                    std::ofstream(folders / "file") << "";
                    train(folders / "file", tiny.learner, c);
                  }),
                  "file"));
}

TEST(Train, has_a_folder_to_itself) {
  const Folder folders;
  Tiny tiny, other;
  TrainConfig config = tiny_config();
  config.steps = 2;
  std::string message;
  tiny.before_loss = [&](int64_t) {
    message = error_of([&] { train(folders / "run", other.learner, config); });
  };
  train(folders / "run", tiny.learner, config);
  EXPECT_TRUE(has(message, "in use")) << message;
  EXPECT_EQ(other.steps, 0);
}

// ---- A disk that is full -----------------------------------------------------------------------

// Writing beyond this many bytes of a file fails, after a short write.
class LargestFile {
 public:
  explicit LargestFile(rlim_t bytes) {
    handler_ = ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &now);
  }
  ~LargestFile() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }
  LargestFile(const LargestFile&) = delete;
  LargestFile& operator=(const LargestFile&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST(Train, leaves_the_old_checkpoint_when_the_disk_is_full) {
  const Folder folders;
  TrainConfig config = tiny_config();
  config.steps = 12;
  config.save_every = 1;
  {
    Tiny tiny;
    train(folders / "whole", tiny.learner, config);
  }
  const auto folder = folders / "run";
  const auto state = folder / "state.safetensors";
  Tiny tiny;
  std::string before, message;
  {
    std::optional<LargestFile> full;
    tiny.before_loss = [&](int64_t step) {
      if (step != 6) return;
      before = read_bytes(state);
      full.emplace(before.size() / 2);
    };
    message = error_of([&] { train(folder, tiny.learner, config); });
  }
  EXPECT_TRUE(has(message, "state.safetensors")) << message;
  EXPECT_FALSE(has(message, "\n"));
  EXPECT_FALSE(before.empty());
  EXPECT_EQ(read_bytes(state), before);
  EXPECT_EQ(read_safetensors(state).metadata.at("step"), "5");
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    EXPECT_FALSE(has(entry.path().filename().string(), ".tmp")) << entry.path();
  }
  Tiny again;
  train(folder, again.learner, config);
  EXPECT_EQ(again.steps, 7);
  expect_same_run(folder, folders / "whole");
}

}  // namespace
}  // namespace fovea::train::tests
