#include "explorer/training.h"

#include <fmt/format.h>

#include <algorithm>

#include "fovea/error.h"

namespace fovea::explorer {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMostWaiting = 50, kMostEnded = 8;

// As the run's config.json has them, with other limits.
std::unique_ptr<tasks::TaskConfig> config_to_go_on(const tasks::Task& task,
                                                   const tasks::RunFolder& folder,
                                                   const tasks::Given& limits) {
  std::unique_ptr<tasks::TaskConfig> config = folder.config_of(task);
  tasks::change_limits(task, *config, limits);
  return config;
}

}  // namespace

const char* name_of(Training::State state) {
  constexpr const char* kNames[] = {"waiting", "running", "finished", "stopped", "failed"};
  return kNames[static_cast<size_t>(state)];
}

Training::~Training() { stop(); }

void Training::stop() {
  {
    const std::lock_guard lock(mutex_);
    if (queue_.size() > 1) queue_.erase(queue_.begin() + 1, queue_.end());
    stop_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void Training::stop(const std::string& run) {
  const std::lock_guard lock(mutex_);
  if (working_ && queue_.front().job.run == run) {
    stop_ = true;
    return;
  }
  if (std::erase_if(queue_, [&](const Work& w) { return w.job.run == run; }) > 0) return;
  throw Error("train", fmt::format("{} is not being trained from this page", run));
}

std::vector<Training::Job> Training::jobs() const {
  const std::lock_guard lock(mutex_);
  std::vector<Job> all(ended_.begin(), ended_.end());
  for (const Work& w : queue_) all.push_back(w.job);
  return all;
}

Training::Job Training::latest() const {
  const std::lock_guard lock(mutex_);
  if (working_) return queue_.front().job;
  return ended_.empty() ? Job() : ended_.back();
}

bool Training::in_queue(const std::string& run) const {
  return std::ranges::any_of(queue_, [&](const Work& w) { return w.job.run == run; });
}

fs::path Training::free_folder(const std::string& base) const {
  std::string run = base;
  for (int n = 2; fs::exists(root_ / run) || in_queue(run); ++n)
    run = fmt::format("{}-{}", base, n);
  return root_ / run;
}

void Training::add(Work w) {
  if (queue_.size() > kMostWaiting) {
    throw Error("train", fmt::format("{} trainings wait already: stop some", kMostWaiting));
  }
  std::erase_if(ended_, [&](const Job& j) { return j.run == w.job.run; });
  queue_.push_back(std::move(w));
  if (working_) return;
  if (thread_.joinable()) thread_.join();
  working_ = true;
  stop_ = false;
  queue_.front().job.state = State::running;
  thread_ = std::thread([this] { work(); });  // waits for the lock
}

fs::path Training::begin(const NewRun& run) {
  const tasks::Task& task = tasks::task(run.task);
  tasks::Given typed = run.settings;
  if (run.upload > 0) typed[task.data_field] = uploads_.at(run.upload).path;
  const std::string data = tasks::config_from(task, typed)->data_name();
  const std::lock_guard lock(mutex_);
  const fs::path folder = free_folder(fmt::format("{}-{}", task.name, data));
  add({.job = {.run = folder.filename().string(), .task = task.name},
       .task = &task,
       .folder = folder,
       .typed = std::move(typed),
       .existing = tasks::Existing::refuse});
  return folder;
}

void Training::go_on(const std::string& name, const tasks::RunFolder& folder,
                     const tasks::Given& limits) {
  const tasks::Task& task = folder.task();
  if (!folder.has_state()) {
    throw Error("train",
                fmt::format("{} was stopped before it saved anything: train it anew", name));
  }
  config_to_go_on(task, folder, limits);
  const std::lock_guard lock(mutex_);
  if (in_queue(name)) throw Error("train", fmt::format("{} is in the queue already", name));
  add({.job = {.run = name, .task = task.name},
       .task = &task,
       .folder = folder.path(),
       .typed = limits,
       .existing = tasks::Existing::go_on});
}

void Training::end(State state, const std::string& failure) {
  Job job = std::move(queue_.front().job);
  queue_.pop_front();
  job.state = state;
  job.failure = failure;
  ended_.push_back(std::move(job));
  if (ended_.size() > kMostEnded) ended_.pop_front();
}

void Training::work() {
  std::unique_lock lock(mutex_);
  while (!queue_.empty()) {
    const Work now = queue_.front();
    queue_.front().job.state = State::running;
    lock.unlock();
    State state = State::finished;
    std::string failure;
    try {
      train(now);
    } catch (const train::Stopped&) {
      state = State::stopped;
    } catch (const Error& e) {
      failure = e.message();
    } catch (const std::exception& e) {
      failure = e.what();
    }
    lock.lock();
    end(failure.empty() ? state : State::failed, failure);
    stop_ = false;
  }
  working_ = false;
}

void Training::train(const Work& now) {
  const tasks::RunFolder folder(now.folder);
  const auto config = now.existing == tasks::Existing::go_on
                          ? config_to_go_on(*now.task, folder, now.typed)
                          : tasks::config_from(*now.task, now.typed);
  const tasks::Watching watching{.say = {},
                                 .progress =
                                     [this](const train::Progress& p) {
                                       const std::lock_guard lock(mutex_);
                                       Job& job = queue_.front().job;
                                       job.done = p.done;
                                       job.seconds_left = p.seconds_left;
                                       job.step = p.step;
                                       job.per_second = p.units_per_second;
                                       job.unit = p.unit;
                                     },
                                 .stop = &stop_};
  const tasks::Trained trained = train_run(*now.task, folder, *config, now.existing, watching);
  if (trained.finished.why == train::Ended::interrupted) throw train::Stopped();
}

}  // namespace fovea::explorer
