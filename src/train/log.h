#pragma once

#include <filesystem>
#include <string>

#include "fovea/train.h"

namespace fovea::train {

// log.jsonl: a JSON object a line, without a clock, so that equal runs have equal logs. It is the
// folder's lock: holding it open keeps other processes out.
class RunLog {
 public:
  explicit RunLog(const std::filesystem::path& folder);  // throws where another process is in it
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  std::filesystem::path folder() const { return path_.parent_path(); }
  void cut(int64_t bytes);  // drops what lies beyond
  void write(const std::string& line);
  int64_t sync();  // through a power cut; gives the bytes so far
  // Throws where the folder was moved or removed: what is written to its path now goes into
  // whatever stands there.
  void expect_in_place() const;

 private:
  bool is_at_its_path() const;
  [[noreturn]] void fail(const char* what) const;

  std::filesystem::path path_;
  int file_ = -1;
  int64_t bytes_ = 0;
};

struct LoggedStep {
  int64_t step, epoch;
  double loss;
  float rate, grad_norm;
};
bool logged(int64_t step);  // the first, each tenth up to 100, then each fiftieth
std::string line_of(const LoggedStep&);
std::string line_of(int64_t step, const Scores&);

}  // namespace fovea::train
