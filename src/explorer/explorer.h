#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

// The page in the browser: runs, what they make of an input, and where they look.
namespace fovea::explorer {

struct ExplorerSettings {
  std::vector<std::string> runs;  // folders of runs, or folders that hold some
  std::string host = "127.0.0.1";
  int port = 8080;
  std::string token;          // asked of everybody where the host is not this machine's own
  std::string root = "runs";  // where trainings begun from the page go
};

class Explorer {
 public:
  explicit Explorer(const ExplorerSettings&);  // listens; throws where it cannot or may not
  ~Explorer();
  Explorer(const Explorer&) = delete;
  Explorer& operator=(const Explorer&) = delete;
  std::string address() const;  // "http://127.0.0.1:8080/"
  void run(const std::atomic<bool>& stop);
  // Stops a training, saved, and whatever is being answered; false where something goes on for
  // longer than two seconds, as reading a large file may. Nothing of that is kept.
  bool finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fovea::explorer
