#include "tasks/run_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "checkpoints/folder.h"
#include "checkpoints/origin.h"
#include "fovea/error.h"
#include "io/json.h"
#include "tasks/opened/opened.h"
#include "tasks/task.h"

namespace fovea::tasks {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kConfig = "config.json";
constexpr const char* kState = "state.safetensors";
constexpr const char* kLog = "log.jsonl";
constexpr const char* kModel = "model.safetensors";
constexpr const char* kOthers[] = {kModel, kReportPage, "looks.json", "speed.jsonl"};
constexpr const char* kEarly = "early";  // how it ended
constexpr const char* kLimit = "limit";

train::Scores scores_of(const Json& j) {
  train::Scores scores;
  for (const auto& [name, value] : j.items()) {
    if (value.is_number()) scores.emplace_back(name, value.get<double>());
  }
  return scores;
}

bool found_at(const fs::path& path) {
  std::error_code error;
  const bool there = fs::exists(path, error);
  if (error) throw Error("run", fmt::format("{}: {}", path.string(), error.message()));
  return there;
}

bool is_one_of(const std::string& name, const std::vector<std::string>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// As one of these files is called while it is written.
bool is_temporary(const std::string& name, const std::vector<std::string>& names) {
  return name.ends_with(".tmp") &&
         std::any_of(names.begin(), names.end(),
                     [&](const std::string& file) { return name.starts_with('.' + file + '.'); });
}

std::vector<std::string> files_of_run(const Task& task) {
  std::vector<std::string> names = {kConfig, kResults, kState, kLog};
  names.insert(names.end(), std::begin(kOthers), std::end(kOthers));
  names.insert(names.end(), task.files.begin(), task.files.end());
  return names;
}

// What a model that is trained further came with.
bool is_origin(const fs::directory_entry& entry) {
  if (entry.path().filename() != kOriginFolder || !fs::is_directory(entry.symlink_status())) {
    return false;
  }
  std::error_code error;
  for (const fs::directory_entry& file : fs::directory_iterator(entry.path(), error)) {
    const std::string name = file.path().filename().string();
    const bool known = checkpoints::is_of_origin(name) || name.ends_with(".tmp");
    if (!known || fs::is_directory(file.symlink_status())) return false;
  }
  return !error;
}

bool is_of_run(const fs::directory_entry& entry, const Task& task) {
  if (is_origin(entry)) return true;
  const std::string name = entry.path().filename().string();
  const std::vector<std::string> files = files_of_run(task);
  return !fs::is_directory(entry.symlink_status()) &&
         (is_one_of(name, files) || is_temporary(name, files));
}

// config.json is written last; before it come the log, which is the lock, and the task's files.
bool is_of_beginning(const fs::directory_entry& entry, const Task& task) {
  const std::string name = entry.path().filename().string();
  std::error_code error;
  if (name == kLog) return fs::file_size(entry.path(), error) == 0;
  return is_origin(entry) ||
         (is_of_run(entry, task) && (is_one_of(name, task.files) || name.ends_with(".tmp")));
}

std::string first_that_is_not(bool (*known)(const fs::directory_entry&, const Task&),
                              const fs::path& folder, const Task& task) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (!known(entry, task)) return entry.path().filename().string();
  }
  if (error) throw Error("run", fmt::format("{}: {}", folder.string(), error.message()));
  return {};
}

Json read_config(const fs::path& run) {
  if (!found_at(run / kConfig)) {
    const fs::path aside = name_aside(run);
    throw Error("run",
                fmt::format("{} holds no run: there is no {}{}", run.string(), kConfig,
                            found_at(aside / kConfig)
                                ? "; the one before was being replaced, and is " + aside.string()
                                : ""));
  }
  return read_json(run / kConfig);
}

const Task& task_in(const Json& json, const fs::path& file) {
  if (!json.is_object() || !json.contains("task") || !json["task"].is_string()) {
    throw Error("run", file.string() + " is not a run's: it names no task");
  }
  for (const Task* task : task_table()) {
    if (json["task"] == task->name) return *task;
  }
  throw Error("run", fmt::format("{} is of task {}, which this program does not have",
                                 file.string(), json["task"].dump()));
}

std::unique_ptr<TaskConfig> settings_in(Json json, const Task& task, const fs::path& file) {
  json.erase("task");
  std::unique_ptr<TaskConfig> config = task.config();
  from_json(json, *config, file.string());
  return config;
}

}  // namespace

// A slash at the end names the same folder.
RunFolder::RunFolder(const fs::path& path)
    : path_(path.has_filename() ? path : path.parent_path()) {}

fs::path name_aside(const fs::path& folder, int n) {
  return fmt::format("{}.old{}", folder.string(), n == 1 ? "" : fmt::format("-{}", n));
}

std::string RunFolder::name() const {
  const fs::path path = fs::absolute(path_).lexically_normal();  // "." has one, too
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

bool RunFolder::is_there() const {
  if (!found_at(path_)) return false;
  if (!fs::is_directory(path_)) throw Error("run", path_.string() + " is no folder");
  return true;
}
bool RunFolder::is_checkpoint() const { return checkpoints::is_checkpoint(path_); }
bool RunFolder::holds_run() const { return found_at(path_ / kConfig) || is_checkpoint(); }
bool RunFolder::has_state() const { return found_at(path_ / kState); }
bool RunFolder::has_model() const { return found_at(path_ / kModel) || is_checkpoint(); }
bool RunFolder::is_finished() const { return holds_run() && found_at(path_ / kResults); }

std::string RunFolder::not_of_a_run(const Task& task) const {
  return first_that_is_not(is_of_run, path_, task);
}

// The log is made first, so that without it nothing is of a beginning.
std::string RunFolder::not_of_a_beginning(const Task& task) const {
  const auto nothing = [](const fs::directory_entry&, const Task&) { return false; };
  return first_that_is_not(found_at(path_ / kLog) ? is_of_beginning : +nothing, path_, task);
}

bool RunFolder::owns(const std::string& name) const {
  if (is_checkpoint()) return found_at(path_ / name);
  std::vector<std::string> files = files_of_run({});
  try {
    files = files_of_run(task());
  } catch (const Error&) {
  }
  return is_one_of(name, files) || is_temporary(name, files) || name == kOriginFolder;
}

// config.json first: what a kill leaves of it is no run.
void RunFolder::remove_files(const Task& task) const {
  std::error_code ignored;
  std::vector<fs::path> files = {path_ / kConfig};
  for (const fs::directory_entry& entry : fs::directory_iterator(path_, ignored)) {
    if (!is_of_run(entry, task)) continue;
    if (is_origin(entry)) {
      for (const fs::directory_entry& file : fs::directory_iterator(entry.path(), ignored)) {
        files.push_back(file.path());
      }
    }
    files.push_back(entry.path());
  }
  for (const fs::path& file : files) fs::remove(file, ignored);
}

const Task& RunFolder::task() const {
  if (is_checkpoint()) return opened_task(path_);
  return task_in(read_config(path_), path_ / kConfig);
}

std::unique_ptr<TaskConfig> RunFolder::config() const {
  if (is_checkpoint()) return opened_config(path_);
  const Json json = read_config(path_);
  return settings_in(json, task_in(json, path_ / kConfig), path_ / kConfig);
}

std::unique_ptr<TaskConfig> RunFolder::config_of(const Task& expected) const {
  const Json json = read_config(path_);
  const Task& found = task_in(json, path_ / kConfig);
  if (&found != &expected) {
    throw Error("run", fmt::format("{} is a run of task {}, not of {}", path_.string(), found.name,
                                   expected.name));
  }
  return settings_in(json, found, path_ / kConfig);
}

std::unique_ptr<TaskConfig> config_in(const fs::path& file, const Task& expected,
                                      const Given& typed) {
  Json json = read_json(file);
  const Task& found = task_in(json, file);
  if (&found != &expected) {
    throw Error("run", fmt::format("{} is of task {}, not of {}", file.string(), found.name,
                                   expected.name));
  }
  json.erase("task");
  std::unique_ptr<TaskConfig> config = found.config();
  const auto say = [&] {
    from_json(json, *config, file.string());
    from_options(typed, *config);
  };
  say();
  // To repeat a run is to take what it says for all of it: a setting that came later is as it was
  // before there was one.
  const bool repeats = !config->fingerprint.empty() && typed.empty();
  if (!repeats) {
    config->suit_data();
    say();
  }
  replace_limits(*config, typed);
  return config;
}

void RunFolder::save_config(const Task& task, TaskConfig& config) const {
  Json json = {{"task", task.name}};
  json.update(to_json(config));
  write_json(path_ / kConfig, json);
}

Trained RunFolder::results() const {
  const fs::path file = path_ / kResults;
  if (is_checkpoint()) {
    throw Error("run", fmt::format("{} is a model that somebody else trained: there is no training "
                                   "to report on; `fovea info` says what it is",
                                   path_.string()));
  }
  if (holds_run() && !is_finished()) {
    throw Error("run", fmt::format("{} is not finished: there is no {}", path_.string(), kResults));
  }
  const Json json = read_json(file);
  try {
    Trained t;
    train::Finished& f = t.finished;
    f.why = json.value("ended", kLimit) == std::string(kEarly) ? train::Ended::stopped_early
                                                               : train::Ended::finished;
    f.steps = json.value("steps", int64_t{0});
    f.epochs = json.value("epochs", int64_t{0});
    f.seen = json.contains("seen") && json["seen"].is_number()
                 ? json["seen"].get<double>()
                 : std::numeric_limits<double>::quiet_NaN();
    f.unit = json.value("unit", std::string());
    f.seconds = json.at("seconds").get<double>();
    f.best_step = json.value("best_step", int64_t{0});
    f.best = scores_of(json.value("valid", Json::object()));
    t.test = evaluation_from_json(json.at("test"));
    return t;
  } catch (const Json::exception& e) {
    throw Error("run", fmt::format("{} is not a run's: {}", file.string(), e.what()));
  } catch (const Error& e) {
    throw Error("run", fmt::format("{} is not a run's: {}", file.string(), e.message()));
  }
}

void RunFolder::remove_results() const {
  std::error_code ignored;
  for (const char* file : {kResults, kReportPage}) fs::remove(path_ / file, ignored);
}

void RunFolder::save_results(const Trained& trained) const {
  const train::Finished& f = trained.finished;
  write_json(path_ / kResults, {{"steps", f.steps},
                                {"epochs", f.epochs},
                                {"seen", f.seen},
                                {"unit", f.unit},
                                {"seconds", f.seconds},
                                {"ended", f.why == train::Ended::stopped_early ? kEarly : kLimit},
                                {"best_step", f.best_step},
                                {"valid", to_json(f.best)},
                                {"test", to_json(trained.test)}});
}

}  // namespace fovea::tasks
