#include "explorer/training.h"

#include <fmt/format.h>

#include "fovea/error.h"
#include "tasks/train.h"

namespace fovea::explorer {
namespace fs = std::filesystem;

Training::~Training() { stop(); }

void Training::stop() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

Training::Status Training::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

fs::path Training::begin(const std::string& name) {
  const tasks::Task& task = tasks::task(name);
  const std::lock_guard lock(mutex_);
  if (status_.running) throw Error("train", fmt::format("{} is being trained", status_.run));
  if (thread_.joinable()) thread_.join();
  const std::string base =
      fmt::format("{}-{}", task.name, tasks::config_from(task, {})->data_name());
  std::string run = base;
  for (int n = 2; fs::exists(root_ / run); ++n) run = fmt::format("{}-{}", base, n);
  thread_ = std::thread([this, name, folder = root_ / run] { train(name, folder); });
  status_ = {.run = run, .running = true};  // the thread waits for the lock to change it
  return root_ / run;
}

void Training::train(const std::string& name, const fs::path& folder) {
  std::string failure;
  try {
    const tasks::Task& task = tasks::task(name);
    const tasks::Watching watching{.say = {},
                                   .progress =
                                       [this](const train::Progress& p) {
                                         const std::lock_guard lock(mutex_);
                                         status_.done = p.done;
                                         status_.seconds_left = p.seconds_left;
                                       },
                                   .stop = &stop_};
    train_run(task, tasks::RunFolder(folder), *tasks::config_from(task, {}), tasks::Former::refuse,
              watching);
  } catch (const Error& e) {
    failure = e.message();
  } catch (const std::exception& e) {
    failure = e.what();
  }
  const std::lock_guard lock(mutex_);
  status_.failure = failure;
  status_.running = false;
}

}  // namespace fovea::explorer
