#pragma once

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "fovea/train.h"
#include "tasks/run_folder.h"

// How fast a run learned, by step: speed.jsonl. It is no part of the log, which has no clock in it,
// so that equal runs have equal logs.
//   {"step":120,"seconds":3.1,"per_second":41250,"unit":"tokens"}
namespace fovea::tasks {

class SpeedLog {
 public:
  SpeedLog(const RunFolder&, bool goes_on);
  // A line now and then: each second at first, then each time a two-hundredth more has passed, so
  // that a training of days has some two thousand.
  void add(const train::Progress&);

 private:
  std::ofstream file_;  // where it cannot be written, the training goes on without it
  double next_ = 0;     // seconds
};

struct Speed {
  std::string unit;
  std::vector<std::pair<double, double>> points;  // step, units a second
};
Speed speed_of(const RunFolder&);  // empty where there is no such file

}  // namespace fovea::tasks
