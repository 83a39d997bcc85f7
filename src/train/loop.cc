#include "train/loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <optional>

#include "io/folder.h"
#include "train/checkpoint.h"
#include "train/descent.h"
#include "train/meter.h"
#include "train/shared.h"
#include "train/weights.h"

namespace fovea::train {
namespace fs = std::filesystem;
namespace {

// One call of train(). Everything that decides what happens next is in state_, the weights, the
// buffers, the moments and the averages; so a run that goes on from them is the run that never
// stopped.
class Loop {
 public:
  Loop(const Session&, Learner&, const TrainConfig&);
  Finished operator()();

 private:
  void resume();
  void take_up(const std::optional<Checkpoint>&);
  void expect_place() const;
  void expect_alike_team() const;
  bool stop_asked();
  void load_batches() { batches_ = batches_of_epoch(learner_.lengths, config_, state_.epoch); }

  bool validation_due() const;
  bool save_due() const;
  bool at_limit() const;
  bool stopped_early() const {
    return config_.stop_after > 0 && state_.stale >= config_.stop_after;
  }
  double own_seconds() const { return state_.seconds + clock_seconds() - started_; }
  // Of several ranks the first one's clock counts, as it stood before the step.
  double seconds() const { return team_.size() > 1 ? agreed_seconds_ : own_seconds(); }
  double done() const;

  void step();
  Descent::Taken descend(int64_t batches);
  void validate();
  std::optional<Scores> judge();
  bool is_better(double score) const;
  void save();
  Finished end(Ended);
  Finished finished(Ended) const;
  void report(const Scores* validated, bool better);

  const Session& session_;
  team::Team& team_;
  RunLog* const log_;  // null but at the first rank
  const fs::path folder_;
  Learner& learner_;
  const TrainConfig& config_;

  Descent descent_;
  const Metadata identity_;
  RunState state_;
  std::vector<std::vector<int64_t>> batches_;  // of the epoch at hand
  int64_t saved_step_ = -1;
  bool stepped_ = false;
  bool best_is_new_ = false;  // not in model.safetensors yet
  double started_ = clock_seconds();
  double agreed_seconds_ = 0;
  Meter meter_;
  float rate_ = 0;
};

Loop::Loop(const Session& session, Learner& learner, const TrainConfig& config)
    : session_(session),
      team_(session.team),
      log_(session.log),
      folder_(log_ != nullptr ? log_->folder() : fs::path()),
      learner_(learner),
      config_(config),
      descent_(learner, config, team_),
      identity_(identity_of(learner, config)) {
  if (learner_.shared && learner_.shared->terms < team_.size()) {
    const auto error =
        fmt::format("{} processes share each batch, which has {} parts: start {} at most",
                    team_.size(), learner_.shared->terms, learner_.shared->terms);
    team::fail_everywhere(team_, Error("train", error));
  }
  if (!learner_.shared && config_.batches < team_.size()) {
    const auto error = fmt::format(
        "{} processes share a step's batches, of which there {} {}: "
        "--batches takes {} or more",
        team_.size(), config_.batches == 1 ? "is" : "are", config_.batches, team_.size());
    team::fail_everywhere(team_, Error("train", error));
  }
  resume();
  load_batches();
  expect_place();
  expect_alike_team();
}

// Before the first step: with other data, weights or arithmetic on a rank, nothing would be what it
// is said to be.
void Loop::expect_alike_team() const {
  if (team_.size() == 1) return;
  std::string probe;
  const auto compute = [&] { probe = descent_.probe(batches_[0]); };
  if (learner_.shared) {
    compute();
  } else {
    team::together(team_, compute);
  }
  std::map<std::string, std::string> facts = identity_;
  facts["what a step computes"] = probe;
  team::expect_alike(team_, facts);
}

void Loop::resume() {
  std::optional<Checkpoint> from;
  team::together(team_, [&] {
    if (log_ == nullptr) return;
    remove_leftovers(folder_);
    from = load_state(folder_ / "state.safetensors", identity_);
    if (!from) log_->cut(0);
  });
  const std::string state = team::broadcast(team_, from ? text_of(from->state) : "");
  if (state.empty()) return;
  take_up(from);
  state_ = parse_state(state);
  saved_step_ = state_.step;
}

void Loop::expect_place() const {
  const auto batches = static_cast<int64_t>(batches_.size());
  if (state_.position < batches) return;
  const auto error =
      fmt::format("{} is damaged: {} batches of an epoch are done, which has {}",
                  (folder_ / "state.safetensors").string(), state_.position, batches);
  team::fail_everywhere(team_, Error("train", error));
}

// What a file of the model holds.
template <class Named>
Named with(Named weights, const Named& buffers) {
  weights.insert(buffers.begin(), buffers.end());
  return weights;
}

// The first rank has it.
void Loop::take_up(const std::optional<Checkpoint>& from) {
  const std::string path = (folder_ / "state.safetensors").string();
  const fs::path model = folder_ / "model.safetensors";
  team::together(team_, [&] {
    if (!from) return;
    copy_values(from->weights, learner_.parameters, path);
    copy_values(from->buffers, learner_.buffers, path);
    log_->cut(from->state.log_bytes);
    if (from->state.validations == 0 || load_best(model, from->state.best_step)) return;
    // Killed after the state of the best step was saved and before its weights were.
    if (from->state.best_step != from->state.step) {
      throw Error("train", fmt::format("{} is missing or not of step {}, the best so far",
                                       model.string(), from->state.best_step));
    }
    const Tensors& best = config_.average > 0 ? from->average : from->weights;
    save_best(team::alone(), model, as_they_are(with(best, from->buffers)), from->state.best_step);
  });
  descent_.spread();
  descent_.load_optimizer(from ? from->optimizer : Tensors());
  descent_.load_averages(from ? from->average : Tensors(), path);
}

// The same answer on all ranks, whichever was asked.
bool Loop::stop_asked() {
  struct OneRank {
    double seconds;
    int64_t stop;
  };
  const bool mine = session_.stop != nullptr && session_.stop->load();
  if (team_.size() == 1) return mine;
  const std::vector<OneRank> all = team::gather(team_, OneRank{own_seconds(), mine});
  agreed_seconds_ = all[0].seconds;
  return std::ranges::any_of(all, [](const OneRank& r) { return r.stop != 0; });
}

Finished Loop::operator()() {
  try {
    while (!stop_asked()) {
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
  const double done_before = done();
  const int64_t number = state_.step + 1;
  const int64_t epoch = state_.epoch + 1;
  rate_ = rate_at(config_.schedule, number, done_before, state_.reductions);
  const int64_t all = static_cast<int64_t>(batches_.size());
  const int64_t batches = std::min(config_.batches, all - state_.position);
  if (learner_.before_step) learner_.before_step(done_before);
  const Descent::Taken taken = descend(batches);
  stepped_ = true;
  state_.step = number;
  state_.position += batches;
  if (state_.position == all) {
    state_.position = 0;
    ++state_.epoch;
    load_batches();
  }
  meter_.add({.total = taken.total,
              .count = taken.count,
              .share = done() - done_before,
              .seconds = clock_seconds() - began});
  if (logged(number)) {
    const double loss = state_.loss_count > 0 ? state_.loss_total / state_.loss_count : 0;
    if (log_ != nullptr)
      log_->write(line_of({number, epoch, loss, rate_, static_cast<float>(taken.norm)}));
    state_.loss_total = state_.loss_count = 0;
  }
  if (meter_.due()) report(nullptr, false);
}

Descent::Taken Loop::descend(int64_t batches) try {
  const Descent::Taken taken =
      descent_.step(std::span(batches_).subspan(static_cast<size_t>(state_.position),
                                                static_cast<size_t>(batches)),
                    state_.step + 1, rate_);
  state_.loss_total += taken.total;
  state_.loss_count += taken.count;
  state_.seen += taken.count;
  return taken;
} catch (const NotFinite& found) {
  const std::string kept = saved_step_ < 0
                               ? "there is no checkpoint yet"
                               : fmt::format("the last checkpoint (step {}) is kept", saved_step_);
  const Error error("train",
                    fmt::format("{} at step {}; {}; lower the rate, warm it up or clip the "
                                "gradient",
                                found.message(), state_.step + 1, kept));
  if (team_.is_over()) throw error;
  team::fail_everywhere(team_, error);  // a norm is everybody's
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

// By all ranks, which may share the work; the first one's scores count. Nothing where it was
// stopped.
std::optional<Scores> Loop::judge() {
  std::optional<Scores> scores;
  std::exception_ptr thrown;
  descent_.with_averages([&] {
    try {
      const NoGrad off;
      scores = learner_.validate();
      watched(learner_, *scores);
    } catch (const Stopped&) {
    } catch (...) {
      if (team_.size() > 1) throw;  // others may be elsewhere by now
      thrown = std::current_exception();
    }
  });
  if (thrown) std::rethrow_exception(thrown);
  if (team_.size() == 1) return scores;
  const std::string found = team::broadcast(team_, scores ? text_of(*scores) : "");
  return found.empty() ? std::nullopt : std::optional(parse_scores(found));
}

void Loop::validate() {
  Scores scores;
  bool better = true;
  double score = 0;
  if (learner_.validate) {
    const std::optional<Scores> judged = judge();
    if (!judged) throw Stopped();
    scores = *judged;
    score = watched(learner_, scores);
    better = is_better(score);
  }
  if (log_ != nullptr) log_->write(line_of(state_.step, scores));
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
  team::together(team_, [&] {
    if (log_ == nullptr) return;
    log_->expect_in_place();
    state_.log_bytes = log_->sync();
  });
  RunState now = state_;
  now.seconds = own_seconds();
  const StreamedTensors buffers = as_they_are(learner_.buffers), averages = descent_.averages();
  save_state(team_, folder_ / "state.safetensors",
             {now, identity_, as_they_are(learner_.parameters), buffers, descent_.optimizer_state(),
              config_.average > 0 ? averages : StreamedTensors()});
  if (best_is_new_) {
    save_best(team_, folder_ / "model.safetensors", with(averages, buffers), state_.best_step);
  }
  saved_step_ = state_.step;
  best_is_new_ = false;
}

Finished Loop::end(Ended why) {
  if (state_.validated_step != state_.step) {
    validate();
  } else if (stepped_) {
    save();  // the time taken: a finished run stays so
  }
  team::together(team_, [&] {
    if (log_ == nullptr) return;
    const fs::path path = folder_ / "model.safetensors";
    const auto best = load_best(path, state_.best_step);
    if (!best) throw Error("train", fmt::format("{} was changed meanwhile", path.string()));
    copy_values(*best, with(learner_.parameters, learner_.buffers), path.string());
  });
  descent_.spread();
  return finished(why);
}

Finished Loop::finished(Ended why) const {
  return {why,           state_.step, state_.epoch, state_.seen,
          learner_.unit, seconds(),   state_.best,  state_.best_step};
}

void Loop::report(const Scores* validated, bool better) {
  if (!session_.report || log_ == nullptr) return;
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
  session_.report(p);
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
  expect(!learner.shared || learner.buffers.empty(), "batches that ranks share have no buffers");
  expect(c.steps > 0 || c.epochs > 0 || c.minutes > 0,
         "steps, epochs or minutes must be positive: one of them ends the run");
  expect(c.steps >= 0 && c.epochs >= 0 && c.minutes >= 0,
         fmt::format("limits must be 0 or more, found {} steps, {} epochs, {} minutes", c.steps,
                     c.epochs, c.minutes));
  expect(c.batches >= 1, fmt::format("batches must be positive, found {}", c.batches));
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
  make_folder("train", run);
  RunLog log(run);
  return train({.log = &log, .report = report, .stop = stop}, learner, config);
}

Finished train(const Session& session, Learner& learner, const TrainConfig& config) {
  return Loop(session, learner, config)();
}

}  // namespace fovea::train
