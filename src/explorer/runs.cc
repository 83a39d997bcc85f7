#include "explorer/runs.h"

#include <fmt/format.h>

#include <algorithm>

#include "fovea/error.h"

namespace fovea::explorer {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMostOpened = 6;

fs::file_time_type written(const tasks::RunFolder& folder) {
  std::error_code none;
  return fs::last_write_time(folder / "model.safetensors", none);
}

// One that cannot be read may be: whoever asks about it is told why.
bool may_hold_run(const fs::path& folder) {
  try {
    return tasks::RunFolder(folder).holds_run();
  } catch (const Error&) {
    return true;
  }
}

// A run's folder; of any other, the runs that lie in it.
std::vector<fs::path> runs_in(const fs::path& folder) {
  if (may_hold_run(folder)) return {folder};
  std::vector<fs::path> found;
  std::error_code none;
  for (const fs::directory_entry& e : fs::directory_iterator(folder, none)) {
    if (e.is_directory(none) && may_hold_run(e.path())) found.push_back(e.path());
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
      for (int n = 2; find(name) != nullptr; ++n) {
        name = fmt::format("{}-{}", path.filename().string(), n);
      }
      found_.push_back({name, path, path == given});
    }
  }
}

const Runs::Found* Runs::find(const std::string& name) const {
  const auto at =
      std::find_if(found_.begin(), found_.end(), [&](const Found& f) { return f.name == name; });
  return at == found_.end() ? nullptr : &*at;
}

std::vector<std::string> Runs::names() {
  const std::lock_guard lock(mutex_);
  look_again();
  std::vector<std::string> names;
  for (const Found& f : found_) names.push_back(f.name);
  return names;
}

std::vector<std::string> Runs::chosen() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const Found& f : found_) {
    if (f.chosen) names.push_back(f.name);
  }
  return names;
}

tasks::RunFolder Runs::folder(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (find(name) == nullptr) look_again();
  const Found* found = find(name);
  if (found == nullptr) throw NotThere{fmt::format("there is no run '{}'", name)};
  return tasks::RunFolder(found->path);
}

void Runs::show(const fs::path& run) {
  std::error_code none;
  const fs::path path = fs::weakly_canonical(run, none);
  const std::lock_guard lock(mutex_);
  for (const fs::path& given : given_) {
    if (given == path || given == path.parent_path()) return;
  }
  given_.push_back(path);
}

std::shared_ptr<Runs::Place> Runs::place_of(const std::string& name) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Place>& place = places_[name];
  if (!place) place = std::make_shared<Place>();
  place->used = std::chrono::steady_clock::now();
  const std::shared_ptr<Place> found = place;
  if (places_.size() > kMostOpened) {
    places_.erase(std::min_element(
        places_.begin(), places_.end(),
        [](const auto& a, const auto& b) { return a.second->used < b.second->used; }));
  }
  return found;
}

Runs::Opened Runs::open(const std::string& name) {
  const tasks::RunFolder from = folder(name);
  const std::shared_ptr<Place> place = place_of(name);
  const std::lock_guard lock(place->opening);
  const fs::file_time_type of = written(from);
  if (!place->opened.run || place->of != of) {
    place->opened = {};  // before the other takes its memory
    const tasks::Task& task = from.task();
    place->opened = {&task, task.open(from)};
    place->of = of;
  }
  return place->opened;
}

}  // namespace fovea::explorer
