#pragma once

#include <atomic>
#include <deque>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "explorer/uploads.h"
#include "tasks/train.h"

namespace fovea::explorer {

// Trainings begun from the page and watched there, one after the other. What is stopped is saved,
// and can be gone on with; all of it stops when the server does.
class Training {
 public:
  // Runs go to folders in this one, which is made when it is needed.
  explicit Training(std::filesystem::path root)
      : root_(std::move(root)), uploads_(root_ / "uploads") {}
  ~Training();
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  enum class State : uint8_t { waiting, running, finished, stopped, failed };
  struct Job {
    std::string run = {}, task = {};  // the folder's name, the task's
    State state = State::waiting;
    std::string failure = {};  // why it ended early, or nothing
    double done = 0, seconds_left = -1;
    int64_t step = 0;
    double per_second = 0;
    std::string unit = {};  // of what, so many each second
  };
  std::vector<Job> jobs() const;  // the latest that ended, the one at work, those that wait
  Job latest() const;             // the one at work, or the last that ended; else an empty one

  // What is to be trained: settings as they are typed, and the number of a file that was sent.
  struct NewRun {
    std::string task;
    tasks::Given settings = {};
    int64_t upload = 0;  // 0: built-in data
  };
  // Gives the run's folder. Throws where the settings are wrong; the data are read in its turn.
  std::filesystem::path begin(const NewRun&);
  // Only limits can change. Throws where it cannot go on, or is in the queue already.
  void go_on(const std::string& name, const tasks::RunFolder&, const tasks::Given& limits);
  void stop(const std::string& run);  // at its next step, or before its turn; throws if not there
  void stop();                        // all, and waits

  Uploads& uploads() { return uploads_; }

 private:
  struct Work {
    Job job;
    const tasks::Task* task;
    std::filesystem::path folder;
    tasks::Given typed;
    tasks::Existing existing;
  };
  bool in_queue(const std::string& run) const;  // with the lock held, as all of these
  std::filesystem::path free_folder(const std::string& base) const;
  void add(Work);
  void work();
  void train(const Work&);
  void end(State, const std::string& failure);

  const std::filesystem::path root_;
  Uploads uploads_;
  std::atomic<bool> stop_{false};  // the one at work
  mutable std::mutex mutex_;
  std::deque<Job> ended_;
  std::deque<Work> queue_;  // the first is at work while working_
  bool working_ = false;
  std::thread thread_;
};

const char* name_of(Training::State);

}  // namespace fovea::explorer
