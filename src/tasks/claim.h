#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "tasks/run_folder.h"
#include "tasks/task.h"
#include "train/log.h"

namespace fovea::tasks {

// What becomes of a run that lies in the folder already.
enum class Existing : uint8_t { refuse, go_on, replace };

// A run's folder, taken for training: no other process trains there while one of these lives. What
// a failure must not cost is safe until the training has saved its first state: before that, the
// end of a claim removes what it made and brings back the run that it moved aside.
class Claim {
 public:
  // Throws, with nothing changed, where the folder is in use or may not be had: a new run takes an
  // empty one, and only a run of ours, with nothing beside it, is replaced.
  Claim(const RunFolder&, const Task&, Existing);
  ~Claim();
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

  bool goes_on() const { return existing_ == Existing::go_on; }
  train::RunLog& log() { return *log_; }
  // When all is known to be good: a run that is to be replaced moves aside, to NAME.old.
  void make_room();
  // Deletes it once the new one can be resumed.
  void settle();

 private:
  // Folders that were not there; those that are still empty go again.
  class MadeFolders {
   public:
    explicit MadeFolders(const std::filesystem::path&);
    ~MadeFolders() { undo(); }
    MadeFolders(const MadeFolders&) = delete;
    MadeFolders& operator=(const MadeFolders&) = delete;

   private:
    void undo();
    std::vector<std::filesystem::path> made_;  // the inner ones last
  };
  struct Old {
    std::filesystem::path place, aside;
    const Task* task;
    std::unique_ptr<train::RunLog> log;
  };

  const RunFolder folder_;
  const Task& task_;
  const Existing existing_;
  MadeFolders made_;
  std::unique_ptr<train::RunLog> log_;
  std::optional<Old> old_;
  bool is_new_ = false;  // what lies in the folder was made by this, and has no state yet
};

}  // namespace fovea::tasks
