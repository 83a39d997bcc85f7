#include "tasks/run_folder.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "fovea/error.h"
#include "tasks/json_file.h"
#include "tasks/task.h"

namespace fovea::tasks {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kConfig = "config.json";
constexpr const char* kResults = "results.json";
constexpr const char* kEarly = "early";  // how it ended
constexpr const char* kLimit = "limit";

train::Scores scores_of(const Json& j) {
  train::Scores scores;
  for (const auto& [name, value] : j.items()) {
    if (value.is_number()) scores.emplace_back(name, value.get<double>());
  }
  return scores;
}

Json read_config(const fs::path& run) {
  if (!fs::exists(run / kConfig)) {
    throw Error("run", fmt::format("{} holds no run: there is no {}", run.string(), kConfig));
  }
  return read_json(run / kConfig);
}

const Task& task_in(const Json& json, const fs::path& run) {
  const fs::path file = run / kConfig;
  if (!json.is_object() || !json.contains("task") || !json["task"].is_string()) {
    throw Error("run", file.string() + " is not a run's: it names no task");
  }
  for (const Task* task : task_table()) {
    if (json["task"] == task->name) return *task;
  }
  throw Error("run", fmt::format("{} is of task {}, which this program does not have",
                                 file.string(), json["task"].dump()));
}

std::unique_ptr<TaskConfig> config_in(Json json, const Task& task, const fs::path& run) {
  json.erase("task");
  std::unique_ptr<TaskConfig> config = task.config();
  from_json(json, *config, (run / kConfig).string());
  return config;
}

}  // namespace

std::string RunFolder::name() const {
  return (path_.filename().empty() ? path_.parent_path() : path_).filename().string();
}

bool RunFolder::holds_run() const { return fs::exists(path_ / kConfig); }
bool RunFolder::is_finished() const { return holds_run() && fs::exists(path_ / kResults); }

void RunFolder::make() const {
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) throw Error("run", fmt::format("{}: {}", path_.string(), error.message()));
}

void RunFolder::remove() const { fs::remove_all(path_); }

const Task& RunFolder::task() const { return task_in(read_config(path_), path_); }

std::unique_ptr<TaskConfig> RunFolder::config() const {
  const Json json = read_config(path_);
  return config_in(json, task_in(json, path_), path_);
}

std::unique_ptr<TaskConfig> RunFolder::config_of(const Task& expected) const {
  const Json json = read_config(path_);
  const Task& found = task_in(json, path_);
  if (&found != &expected) {
    throw Error("run", fmt::format("{} is a run of task {}, not of {}", path_.string(), found.name,
                                   expected.name));
  }
  return config_in(json, found, path_);
}

void RunFolder::save_config(const Task& task, TaskConfig& config) const {
  Json json = {{"task", task.name}};
  json.update(to_json(config));
  write_json(path_ / kConfig, json);
}

Trained RunFolder::results() const {
  const fs::path file = path_ / kResults;
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
    f.seconds = json.at("seconds").get<double>();
    f.best_step = json.value("best_step", int64_t{0});
    f.best = scores_of(json.value("valid", Json::object()));
    t.test = evaluation_from_json(json.at("test"));
    return t;
  } catch (const Json::exception& e) {
    throw Error("run", fmt::format("{} is not a run's: {}", file.string(), e.what()));
  } catch (const Error& e) {
    throw Error("run", fmt::format("{} is not a run's: {}", file.string(), e.what()));
  }
}

void RunFolder::save_results(const Trained& trained) const {
  const train::Finished& f = trained.finished;
  write_json(path_ / kResults, {{"steps", f.steps},
                                {"epochs", f.epochs},
                                {"seconds", f.seconds},
                                {"ended", f.why == train::Ended::stopped_early ? kEarly : kLimit},
                                {"best_step", f.best_step},
                                {"valid", to_json(f.best)},
                                {"test", to_json(trained.test)}});
}

}  // namespace fovea::tasks
