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

// The runs that are shown, by short names. A run is opened once, and everybody asks the same one.
// What was not used for a while and what changed on disk meanwhile is closed, when the last who
// asks it is answered.
class Runs {
 public:
  // Folders of runs, or folders that hold some. Names are those of the folders.
  explicit Runs(const std::vector<std::string>& folders);

  // Anew each time: runs come and go. In the order given; those of one folder by name.
  std::vector<std::string> names();
  std::vector<std::string> chosen();                 // those that were given by themselves
  tasks::RunFolder folder(const std::string& name);  // throws NotThere

  struct Opened {
    const tasks::Task* task = nullptr;
    std::shared_ptr<const tasks::Run> run;
  };
  Opened open(const std::string& name);         // throws NotThere
  void show(const std::filesystem::path& run);  // one more, unless it lies in a folder of these

 private:
  struct Place {
    std::mutex opening;  // others wait for whoever opens it
    Opened opened;
    std::filesystem::file_time_type of;  // when its weights were written
    std::chrono::steady_clock::time_point used;
  };
  void look_again();  // with the lock held
  std::shared_ptr<Place> place_of(const std::string& name);

  std::mutex mutex_;
  std::vector<std::filesystem::path> given_;
  struct Found {
    std::string name;
    std::filesystem::path path;
    bool chosen = false;
  };
  std::vector<Found> found_;
  const Found* find(const std::string& name) const;  // with the lock held
  std::map<std::string, std::shared_ptr<Place>> places_;
};

struct NotThere {
  std::string what;
};

}  // namespace fovea::explorer
