#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tasks/run_folder.h"
#include "tasks/task.h"

namespace fovea::explorer {

// The runs that are shown, by short names. An opened run serves one request at a time: others open
// it once more, so that long work on a run keeps nobody from it. What was not used for a while and
// what changed on disk meanwhile is closed.
class Runs {
 public:
  // Folders of runs, or folders that hold some. Names are those of the folders.
  explicit Runs(const std::vector<std::string>& folders);

  std::vector<std::string> names();                  // anew each time: runs come and go
  tasks::RunFolder folder(const std::string& name);  // throws NotThere

  // A run that is the borrower's alone until it lets go.
  struct Opened {
    const tasks::Task* task = nullptr;
    std::unique_ptr<tasks::Run> run;
    std::filesystem::file_time_type of;  // when its weights were written
    std::chrono::steady_clock::time_point used;
  };
  class Lent {
   public:
    Lent(Runs* from, std::string name, Opened opened)
        : from_(from), name_(std::move(name)), opened_(std::move(opened)) {}
    Lent(Lent&&) = default;
    ~Lent();
    tasks::Run& run() const { return *opened_.run; }
    const tasks::Task& task() const { return *opened_.task; }

   private:
    Runs* from_;
    std::string name_;
    Opened opened_;
  };
  Lent borrow(const std::string& name);

 private:
  void take_back(const std::string& name, Opened);
  void look_again();  // with the lock held

  const std::vector<std::filesystem::path> given_;
  std::mutex mutex_;
  std::map<std::string, std::filesystem::path> found_;
  std::multimap<std::string, Opened> idle_;
};

struct NotThere {
  std::string what;
};

}  // namespace fovea::explorer
