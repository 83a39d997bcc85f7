#pragma once

#include <atomic>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

namespace fovea::explorer {

// One training at a time, on a task's built-in data, begun from the page and watched there, for
// whoever has no run yet. It stops, saved, when the server does.
class Training {
 public:
  // Runs go to folders in this one, which is made when it is needed.
  explicit Training(std::filesystem::path root) : root_(std::move(root)) {}
  ~Training();
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  struct Status {
    std::string run;      // the folder's name; empty before the first
    std::string failure;  // why it ended early, or nothing
    bool running = false;
    double done = 0, seconds_left = -1;
  };
  Status status() const;
  // Gives the run's folder. Throws where one is being trained already.
  std::filesystem::path begin(const std::string& task);
  void stop();  // and waits for it

 private:
  void train(const std::string& task, const std::filesystem::path& folder);

  const std::filesystem::path root_;
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  Status status_;
  std::thread thread_;
};

}  // namespace fovea::explorer
