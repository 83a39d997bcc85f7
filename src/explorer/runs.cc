#include "explorer/runs.h"

#include <fmt/format.h>

#include <algorithm>

#include "fovea/error.h"

namespace fovea::explorer {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMostIdle = 6;  // opened runs that wait for somebody

fs::file_time_type written(const tasks::RunFolder& folder) {
  std::error_code none;
  return fs::last_write_time(folder / "model.safetensors", none);
}

// A run's folder; of any other, the runs that lie in it.
std::vector<fs::path> runs_in(const fs::path& folder) {
  if (tasks::RunFolder(folder).holds_run()) return {folder};
  std::vector<fs::path> found;
  std::error_code none;
  for (const fs::directory_entry& e : fs::directory_iterator(folder, none)) {
    if (e.is_directory(none) && tasks::RunFolder(e.path()).holds_run()) found.push_back(e.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<fs::path> paths_of(const std::vector<std::string>& folders) {
  std::vector<fs::path> paths;
  for (const std::string& f : folders) {
    std::error_code error;
    if (!fs::is_directory(f, error)) throw Error("serve", fmt::format("'{}' is no folder", f));
    paths.push_back(fs::canonical(f));
  }
  return paths;
}

}  // namespace

Runs::Runs(const std::vector<std::string>& folders) : given_(paths_of(folders)) {}

void Runs::look_again() {
  found_.clear();
  for (const fs::path& given : given_) {
    for (const fs::path& path : runs_in(given)) {
      std::string name = path.filename().string();
      for (int n = 2; found_.contains(name); ++n) {
        name = fmt::format("{}-{}", path.filename().string(), n);
      }
      found_[name] = path;
    }
  }
}

std::vector<std::string> Runs::names() {
  const std::lock_guard lock(mutex_);
  look_again();
  std::vector<std::string> names;
  for (const auto& [name, path] : found_) names.push_back(name);
  return names;
}

tasks::RunFolder Runs::folder(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (!found_.contains(name)) look_again();
  const auto found = found_.find(name);
  if (found == found_.end()) throw NotThere{fmt::format("there is no run '{}'", name)};
  return tasks::RunFolder(found->second);
}

Runs::Lent Runs::borrow(const std::string& name) {
  const tasks::RunFolder from = folder(name);
  const fs::file_time_type of = written(from);
  {
    const std::lock_guard lock(mutex_);
    const auto [first, last] = idle_.equal_range(name);
    for (auto it = first; it != last; ++it) {
      if (it->second.of != of) continue;
      Opened opened = std::move(it->second);
      idle_.erase(it);
      return {this, name, std::move(opened)};
    }
    std::erase_if(idle_, [&](const auto& o) { return o.first == name; });  // of former weights
  }
  const tasks::Task& task = from.task();
  return {this, name, {&task, task.open(from), of, {}}};
}

void Runs::take_back(const std::string& name, Opened opened) {
  opened.used = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  idle_.emplace(name, std::move(opened));
  if (idle_.size() <= kMostIdle) return;
  idle_.erase(std::min_element(idle_.begin(), idle_.end(), [](const auto& a, const auto& b) {
    return a.second.used < b.second.used;
  }));
}

Runs::Lent::~Lent() {
  if (opened_.run) from_->take_back(name_, std::move(opened_));
}

}  // namespace fovea::explorer
