#include "tasks/claim.h"

#include <fmt/format.h>
#include <unistd.h>

#include "fovea/error.h"
#include "io/folder.h"

namespace fovea::tasks {
namespace {

namespace fs = std::filesystem;

// What a new run wants: nothing there, or what a beginning left that was killed.
void check_empty(const RunFolder& folder, const Task& task) {
  if (folder.has_state()) {
    throw Error("train", fmt::format("{} holds a run's state.safetensors, but no config.json: put "
                                     "that back to go on, or take another folder",
                                     folder.path().string()));
  }
  if (const std::string other = folder.not_of_a_beginning(task); !other.empty()) {
    throw Error("train", fmt::format("{} holds {} and no run; a new run takes an empty folder",
                                     folder.path().string(), other));
  }
}

// What has no state begins anew, unless that would cost a model.
void check_resumable(const RunFolder& folder) {
  if (folder.has_state() || !folder.has_model()) return;
  throw Error("train", fmt::format("{} holds a model but no state.safetensors, without which a "
                                   "training cannot go on; --force begins anew in its place, --out "
                                   "takes another folder",
                                   folder.path().string()));
}

void check_replaceable(const RunFolder& folder) {
  const Task& task = folder.task();
  folder.config_of(task);  // throws where it has not our form
  if (const std::string other = folder.not_of_a_run(task); !other.empty()) {
    throw Error("train", fmt::format("{} is not replaced: {} in it is no file of a run; move that "
                                     "elsewhere, or take another folder",
                                     folder.path().string(), other));
  }
  std::error_code error;
  const fs::path here = fs::current_path(error);
  if (!error && fs::equivalent(folder.path(), here, error)) {
    throw Error("train", fmt::format("{} is not replaced: it is the current directory",
                                     folder.path().string()));
  }
}

// Changes nothing.
const RunFolder& checked(const RunFolder& folder, const Task& task, Existing existing) {
  if (existing == Existing::go_on) {
    folder.config_of(task);
    check_resumable(folder);
  } else if (!folder.is_there()) {
    return folder;
  } else if (!folder.holds_run()) {
    check_empty(folder, task);
  } else if (existing == Existing::replace) {
    check_replaceable(folder);
  } else {
    folder.task();
    throw Error("train", fmt::format("{} holds a run already; --resume goes on with it, --force "
                                     "replaces it, --out takes another folder",
                                     folder.path().string()));
  }
  return folder;
}

fs::path free_name_beside(const fs::path& folder) {
  std::error_code error;
  int n = 1;
  while (fs::exists(fs::symlink_status(name_aside(folder, n), error))) ++n;
  return name_aside(folder, n);
}

}  // namespace

Claim::MadeFolders::MadeFolders(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> missing;
  for (fs::path p = fs::absolute(folder, error); !error && !fs::exists(p, error);
       p = p.parent_path()) {
    missing.push_back(p);
  }
  for (auto p = missing.rbegin(); p != missing.rend() && !error; ++p) {
    if (fs::create_directory(*p, error)) made_.push_back(*p);
  }
  if (!error) return;
  undo();
  fail_to_make("train", folder, error);
}

void Claim::MadeFolders::undo() {
  for (auto p = made_.rbegin(); p != made_.rend(); ++p) ::rmdir(p->c_str());
}

// Checked before it is locked, so that a folder which is refused stays as it is, and once more.
Claim::Claim(const RunFolder& folder, const Task& task, Existing existing)
    : folder_(checked(folder, task, existing)),
      task_(task),
      existing_(existing),
      made_(folder.path()),
      log_(std::make_unique<train::RunLog>(folder.path())) {
  is_new_ = !checked(folder, task, existing).holds_run();
}

void Claim::make_room() {
  if (existing_ != Existing::replace || is_new_) return;
  const Task& task = checked(folder_, task_, existing_).task();
  std::error_code error;
  const fs::path place = fs::canonical(folder_.path(), error);  // not a link to it
  const fs::path aside = free_name_beside(place);
  if (!error) fs::rename(place, aside, error);
  if (error) {
    throw Error("train", fmt::format("{} cannot be moved aside: {}", folder_.path().string(),
                                     error.message()));
  }
  old_ = Old{place, aside, &task, std::move(log_)};
  if (!fs::create_directory(place, error)) {
    throw Error("train", fmt::format("{} cannot be made anew: {}", place.string(),
                                     error ? error.message() : "another process did"));
  }
  log_ = std::make_unique<train::RunLog>(folder_.path());
  is_new_ = true;
}

void Claim::settle() {
  if (!is_new_ || !folder_.has_state()) return;
  is_new_ = false;
  if (!old_) return;
  RunFolder(old_->aside).remove_files(*old_->task);
  ::rmdir(old_->aside.c_str());
  old_.reset();
}

Claim::~Claim() {
  try {
    settle();
    if (is_new_) folder_.remove_files(task_);
  } catch (const std::exception&) {  // a folder that can no longer be read is left as it is
  }
  log_.reset();
  if (old_) ::rename(old_->aside.c_str(), old_->place.c_str());  // over an empty folder at most
}

}  // namespace fovea::tasks
