#include "train/loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "train/average.h"
#include "train/checkpoint.h"
#include "train/meter.h"
#include "train/weights.h"

namespace fovea::train {
namespace fs = std::filesystem;
namespace {

using Report = std::function<void(const Progress&)>;

// What a step draws its random numbers from.
uint64_t seed_of_step(uint64_t seed, int64_t step) {
  const RandomKey key = random_key(seed, Purpose::dropout, static_cast<uint64_t>(step));
  return static_cast<uint64_t>(key.b) << 32 | key.a;
}

struct FreeGradients {
  explicit FreeGradients(const Tensors& of) : weights(of) { now(); }
  ~FreeGradients() { now(); }
  FreeGradients(const FreeGradients&) = delete;
  FreeGradients& operator=(const FreeGradients&) = delete;
  void now() const {
    for (const auto& [name, tensor] : weights) Tensor(tensor).zero_grad();
  }
  const Tensors& weights;
};

// One call of train(). Everything that decides what happens next is in state_, the weights, the
// buffers, the moments and the averages; so a run that goes on from them is the run that never
// stopped.
class Loop {
 public:
  Loop(RunLog&, Learner&, const TrainConfig&, const Report&, const std::atomic<bool>* stop);
  Finished operator()();

 private:
  void resume();
  void load_batches() { batches_ = batches_of_epoch(learner_.lengths, config_, state_.epoch); }

  bool validation_due() const;
  bool save_due() const;
  bool at_limit() const;
  bool stopped_early() const {
    return config_.stop_after > 0 && state_.stale >= config_.stop_after;
  }
  double seconds() const { return state_.seconds + clock_seconds() - started_; }
  double done() const;

  void step();
  double learn(std::span<const int64_t> batch, int64_t number, float rate);
  void expect_finite(const char* what, double value, int64_t number) const;
  void validate();
  bool is_better(double score) const;
  void save();
  void save_best_weights() const;
  Finished end(Ended);
  Finished finished(Ended) const;
  void report(const Scores* validated, bool better);

  const fs::path folder_;
  Learner& learner_;
  const TrainConfig& config_;
  const Report& report_;
  const std::atomic<bool>* stop_;

  const Tensors weights_;  // distinct
  Optimizer optimizer_;
  Average average_;
  const Metadata identity_;
  RunLog& log_;
  RunState state_;
  std::vector<std::vector<int64_t>> batches_;  // of the epoch at hand
  int64_t saved_step_ = -1;
  bool stepped_ = false;
  bool best_is_new_ = false;  // not in model.safetensors yet
  double started_ = clock_seconds();
  Meter meter_;
  float rate_ = 0;
};

// What a file of the model holds.
Tensors with(Tensors weights, const Tensors& buffers) {
  weights.insert(buffers.begin(), buffers.end());
  return weights;
}

fs::path made(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw Error("train", fmt::format("{}: {}", folder.string(), error.message()));
  return folder;
}

Loop::Loop(RunLog& log, Learner& learner, const TrainConfig& config, const Report& report,
           const std::atomic<bool>* stop)
    : folder_(log.folder()),
      learner_(learner),
      config_(config),
      report_(report),
      stop_(stop),
      weights_(distinct("train", learner.parameters)),
      optimizer_(config.optimizer, weights_),
      average_(learner.parameters, config.average),
      identity_(identity_of(learner, config)),
      log_(log) {
  remove_leftovers(folder_);
  resume();
  load_batches();
}

void Loop::resume() {
  const fs::path path = folder_ / "state.safetensors";
  const auto from = load_state(path, identity_);
  if (!from) return log_.cut(0);
  copy_values(from->weights, learner_.parameters, path.string());
  copy_values(from->buffers, learner_.buffers, path.string());
  optimizer_.load(from->optimizer);
  if (average_.on()) copy_values(from->average, average_.values(), path.string());
  log_.cut(from->state.log_bytes);
  state_ = from->state;
  saved_step_ = state_.step;
  if (state_.validations == 0 || load_best(folder_ / "model.safetensors", state_.best_step)) return;
  // Killed after the state of the best step was saved and before its weights were.
  if (state_.best_step != state_.step) {
    throw Error("train", fmt::format("{} is missing or not of step {}, the best so far",
                                     (folder_ / "model.safetensors").string(), state_.best_step));
  }
  save_best_weights();
}

Finished Loop::operator()() {
  try {
    while (stop_ == nullptr || !stop_->load()) {
      if (validation_due()) {
        validate();
      } else if (save_due()) {
        save();
      } else if (stopped_early()) {
        return end(Ended::stopped_early);
      } else if (at_limit()) {
        return end(Ended::finished);
      } else {
        step();
      }
    }
  } catch (const Stopped&) {
  }
  if (saved_step_ != state_.step) save();
  return finished(Ended::interrupted);
}

bool Loop::validation_due() const {
  if (state_.step == 0 || state_.validated_step == state_.step) return false;
  if (config_.validate_every > 0) return state_.step % config_.validate_every == 0;
  return state_.position == 0;
}

bool Loop::save_due() const {
  return config_.save_every > 0 && state_.step > 0 && state_.step % config_.save_every == 0 &&
         saved_step_ != state_.step;
}

bool Loop::at_limit() const {
  return (config_.steps > 0 && state_.step >= config_.steps) ||
         (config_.epochs > 0 && state_.epoch >= config_.epochs) ||
         (config_.minutes > 0 && seconds() >= 60 * config_.minutes);
}

// The limit that is nearest counts.
double Loop::done() const {
  double share = 0;
  if (config_.steps > 0) {
    share = static_cast<double>(state_.step) / static_cast<double>(config_.steps);
  }
  if (config_.epochs > 0) {
    const double epoch =
        static_cast<double>(state_.position) / static_cast<double>(batches_.size());
    share = std::max(
        share, (static_cast<double>(state_.epoch) + epoch) / static_cast<double>(config_.epochs));
  }
  if (config_.minutes > 0) share = std::max(share, seconds() / (60 * config_.minutes));
  return std::min(share, 1.0);
}

void Loop::step() {
  const double began = clock_seconds();
  const double total_before = state_.loss_total, count_before = state_.loss_count;
  const double done_before = done();
  const int64_t number = state_.step + 1;
  const int64_t epoch = state_.epoch + 1;
  rate_ = rate_at(config_.schedule, number, done_before, state_.reductions);
  const double norm = learn(batches_[static_cast<size_t>(state_.position)], number, rate_);
  stepped_ = true;
  state_.step = number;
  if (++state_.position == static_cast<int64_t>(batches_.size())) {
    state_.position = 0;
    ++state_.epoch;
    load_batches();
  }
  meter_.add({.total = state_.loss_total - total_before,
              .count = state_.loss_count - count_before,
              .share = done() - done_before,
              .seconds = clock_seconds() - began});
  if (logged(number)) {
    const double loss = state_.loss_count > 0 ? state_.loss_total / state_.loss_count : 0;
    log_.write(line_of({number, epoch, loss, rate_, static_cast<float>(norm)}));
    state_.loss_total = state_.loss_count = 0;
  }
  if (meter_.due()) report(nullptr, false);
}

// Forward, backward, update; gives the gradient's norm.
double Loop::learn(std::span<const int64_t> batch, int64_t number, float rate) {
  const FreeGradients before_and_after(weights_);
  {
    const StepLoss loss = learner_.loss(batch, seed_of_step(config_.seed, number));
    expect_finite("the loss", loss.loss.item(), number);
    expect_finite("the loss", loss.total, number);
    loss.loss.backward();
    state_.loss_total += loss.total;
    state_.loss_count += loss.count;
    state_.seen += loss.count;
  }
  const double norm = std::sqrt(device_of("train", weights_).squared_norm(gradients_of(weights_)));
  expect_finite("the gradient's norm", norm, number);
  const bool clipped = config_.clip > 0 && norm > config_.clip;
  optimizer_.step(rate, clipped ? static_cast<float>(config_.clip / norm) : 1.0f);
  average_.update(number);
  return norm;
}

void Loop::expect_finite(const char* what, double value, int64_t number) const {
  if (std::isfinite(value)) return;
  const std::string kept = saved_step_ < 0
                               ? "there is no checkpoint yet"
                               : fmt::format("the last checkpoint (step {}) is kept", saved_step_);
  throw Error("train", fmt::format("{} is {} at step {}; {}; lower the rate, warm it up or clip "
                                   "the gradient",
                                   what, value, number, kept));
}

bool Loop::is_better(double score) const {
  if (state_.validations == 0 || config_.keep == Kept::last) return true;
  if (std::isnan(score)) return false;
  if (std::isnan(state_.best_score)) return true;
  return learner_.higher_is_better ? score > state_.best_score : score < state_.best_score;
}

// The score that is watched.
double watched(const Learner& learner, const Scores& scores) {
  std::string names;
  for (const auto& [name, score] : scores) {
    if (name == learner.watch) return score;
    names += (names.empty() ? "" : ", ") + name;
  }
  throw Error("train", fmt::format("validate() gave no score '{}' to watch, but {}", learner.watch,
                                   names.empty() ? "none" : names));
}

void Loop::validate() {
  Scores scores;
  bool better = true;
  double score = 0;
  if (learner_.validate) {
    const AveragesInPlace by_average(average_);
    const NoGrad off;
    scores = learner_.validate();
    score = watched(learner_, scores);
    better = is_better(score);
  }
  log_.write(line_of(state_.step, scores));
  ++state_.validations;
  state_.validated_step = state_.step;
  if (better) {
    state_.stale = 0;
    state_.best = scores;
    state_.best_score = score;
    state_.best_step = state_.step;
    best_is_new_ = true;
  } else {
    ++state_.stale;
    if (state_.stale % config_.schedule.patience == 0) ++state_.reductions;
  }
  save();
  report(&scores, better);
}

// The state first: whatever it says is the best can then be made again from it.
void Loop::save() {
  log_.expect_in_place();
  state_.log_bytes = log_.sync();
  Checkpoint now{state_, identity_, learner_.parameters, learner_.buffers, optimizer_.state(), {}};
  now.state.seconds = seconds();
  if (average_.on()) now.average = average_.values();
  save_state(folder_ / "state.safetensors", now);
  saved_step_ = state_.step;
  if (!best_is_new_) return;
  save_best_weights();
  best_is_new_ = false;
}

void Loop::save_best_weights() const {
  save_best(folder_ / "model.safetensors", with(average_.values(), learner_.buffers),
            state_.best_step);
}

Finished Loop::end(Ended why) {
  if (state_.validated_step != state_.step) {
    validate();
  } else if (stepped_) {
    save();  // the time taken: a finished run stays so
  }
  const fs::path path = folder_ / "model.safetensors";
  const auto best = load_best(path, state_.best_step);
  if (!best) throw Error("train", fmt::format("{} was changed meanwhile", path.string()));
  copy_values(*best, with(learner_.parameters, learner_.buffers), path.string());
  return finished(why);
}

Finished Loop::finished(Ended why) const {
  return {why,           state_.step, state_.epoch, state_.seen,
          learner_.unit, seconds(),   state_.best,  state_.best_step};
}

void Loop::report(const Scores* validated, bool better) {
  if (!report_) return;
  Progress p;
  p.step = state_.step;
  const bool edge = state_.position == 0 && state_.epoch > 0;  // all of the epoch before
  p.epoch = edge ? state_.epoch : state_.epoch + 1;
  p.batches = static_cast<int64_t>(batches_.size());
  p.batch = edge ? p.batches : state_.position;
  p.loss = meter_.loss();
  p.rate = rate_;
  p.units_per_second = meter_.units_per_second();
  p.unit = learner_.unit;
  p.seconds = seconds();
  p.done = done();
  p.seconds_left = meter_.seconds_left(1 - p.done);
  p.validated = validated;
  p.better = better;
  report_(p);
}

}  // namespace

void check(const Learner& learner, const TrainConfig& c) {
  const auto expect = [](bool holds, const std::string& what) {
    if (!holds) throw Error("train", what);
  };
  expect(!learner.parameters.empty(), "the learner has no parameters");
  for (const auto& [name, tensor] : learner.buffers) {
    expect(!learner.parameters.contains(name), "'" + name + "' is a parameter and a buffer");
  }
  expect(!learner.lengths.empty(), "the learner has no examples");
  expect(learner.loss != nullptr, "the learner has no loss");
  expect(c.steps > 0 || c.epochs > 0 || c.minutes > 0,
         "steps, epochs or minutes must be positive: one of them ends the run");
  expect(c.steps >= 0 && c.epochs >= 0 && c.minutes >= 0,
         fmt::format("limits must be 0 or more, found {} steps, {} epochs, {} minutes", c.steps,
                     c.epochs, c.minutes));
  expect(c.clip >= 0, fmt::format("clip must be 0 or more, found {}", c.clip));
  expect(c.average >= 0 && c.average < 1,
         fmt::format("average must be in [0, 1), found {}", c.average));
  expect(c.keep == Kept::best || (c.stop_after == 0 && c.schedule.decay != Decay::plateau),
         "the last weights are to be kept, so that there is no best validation to stop after, nor "
         "a plateau to wait for; keep the best ones instead");
  expect(c.validate_every >= 0 && c.save_every >= 0 && c.stop_after >= 0,
         fmt::format("validate_every, save_every and stop_after must be 0 or more, found {}, {}, "
                     "{}",
                     c.validate_every, c.save_every, c.stop_after));
  expect(std::isfinite(c.schedule.rate) && c.schedule.rate > 0,
         fmt::format("the rate must be positive, found {}", c.schedule.rate));
  expect(c.schedule.warmup >= 0 && c.schedule.patience >= 1,
         fmt::format("warmup must be 0 or more and patience positive, found {} and {}",
                     c.schedule.warmup, c.schedule.patience));
  expect(c.schedule.floor >= 0 && c.schedule.floor <= 1 && c.schedule.factor > 0 &&
             c.schedule.factor <= 1,
         fmt::format("the rate's floor must be in [0, 1] and its factor in (0, 1], found {} and {}",
                     c.schedule.floor, c.schedule.factor));
}

Finished train(const fs::path& run, Learner& learner, const TrainConfig& config,
               const std::function<void(const Progress&)>& report, const std::atomic<bool>* stop) {
  check(learner, config);
  RunLog log(made(run));
  return train(log, learner, config, report, stop);
}

Finished train(RunLog& log, Learner& learner, const TrainConfig& config,
               const std::function<void(const Progress&)>& report, const std::atomic<bool>* stop) {
  return Loop(log, learner, config, report, stop)();
}

}  // namespace fovea::train
