#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "fovea/train.h"
#include "tasks/config.h"
#include "tasks/evaluation.h"

namespace fovea::tasks {

struct Task;

// How a training ended and what it scored: results.json.
struct Trained {
  train::Finished finished;
  Evaluation test;  // empty when interrupted
};

// The folder of a run: config.json says which task it is of and all its settings; train() adds
// log.jsonl, model.safetensors and state.safetensors, the task what goes with its weights; at the
// end come results.json and report.html. This is the one place that makes, reads and replaces it.
class RunFolder {
 public:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}
  const std::filesystem::path& path() const { return path_; }
  std::string name() const;  // the last part of the path
  std::filesystem::path operator/(const std::string& file) const { return path_ / file; }

  bool holds_run() const;    // config.json is there
  bool is_finished() const;  // results.json too
  void make() const;
  void remove() const;

  const Task& task() const;  // throws where there is no run, or one of no task we know
  std::unique_ptr<TaskConfig> config() const;
  std::unique_ptr<TaskConfig> config_of(const Task&) const;  // throws where it is of another task
  void save_config(const Task&, TaskConfig&) const;
  Trained results() const;
  void save_results(const Trained&) const;

 private:
  std::filesystem::path path_;
};

}  // namespace fovea::tasks
