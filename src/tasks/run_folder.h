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
  Evaluation test;     // empty when interrupted
  std::string to_try;  // a command that shows it at work; not kept
};

// The folder of a run: config.json says which task it is of and all its settings; train() adds
// log.jsonl, model.safetensors and state.safetensors, the task what goes with its weights, looked.h
// looks.json; at the end come results.json and report.html. What they are called is said here
// alone; a training takes the folder by a Claim (claim.h).
inline constexpr const char* kResults = "results.json";
inline constexpr const char* kReportPage = "report.html";
inline constexpr const char* kOriginFolder = "from";  // of a model that is trained further

class RunFolder {
 public:
  explicit RunFolder(const std::filesystem::path&);
  const std::filesystem::path& path() const { return path_; }
  std::string name() const;  // the last part of the path
  std::filesystem::path operator/(const std::string& file) const { return path_ / file; }

  bool is_there() const;       // throws where it is something else than a folder
  bool holds_run() const;      // config.json is there, a run's or a checkpoint's
  bool is_checkpoint() const;  // of a model that somebody else trained (tasks/opened)
  bool has_state() const;      // there is something to go on from
  bool has_model() const;      // there are weights that were kept
  bool is_finished() const;    // results.json is there too

  // The first thing in it that no run of this task has, or that no beginning of one leaves when it
  // is killed; nothing where there is no such thing.
  std::string not_of_a_run(const Task&) const;
  std::string not_of_a_beginning(const Task&) const;
  void remove_files(const Task&) const;  // those of a run, and nothing else
  // Whether a file of this name in it is the run's, there already or not; of a task that we do not
  // know, what every run has.
  bool owns(const std::string& name) const;

  const Task& task() const;  // throws where there is no run, or one of no task we know
  std::unique_ptr<TaskConfig> config() const;
  std::unique_ptr<TaskConfig> config_of(const Task&) const;  // throws where it is of another task
  void save_config(const Task&, TaskConfig&) const;
  Trained results() const;
  void save_results(const Trained&) const;
  void remove_results() const;  // with the page, of a training that goes on

 private:
  std::filesystem::path path_;
};

// Settings as a run's config.json has them, from any file, and on top of them what was typed. What
// neither says is what suits the data that they name. Throws where they are of another task.
std::unique_ptr<TaskConfig> config_in(const std::filesystem::path& file, const Task&,
                                      const Given& typed = {});

// Where a run waits while another takes its place: NAME.old, NAME.old-2, …
std::filesystem::path name_aside(const std::filesystem::path& folder, int n = 1);

}  // namespace fovea::tasks
