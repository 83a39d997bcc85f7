#pragma once

#include <atomic>
#include <string>

#include "fovea/train.h"

namespace fovea::app {

// What long work says on stderr: one line that is rewritten in a terminal, plain lines elsewhere.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  void say(const std::string& line);
  void show(const train::Progress&);
  void show(const std::string& what, double done);

 private:
  void put(const std::string& line, bool lasting);
  bool terminal_;
  double last_ = -1e9;  // seconds of the last plain line
  bool open_ = false;   // a line that may be rewritten stands there
};

bool stdout_has_colours();
int terminal_width();
std::string duration(double seconds);  // 1:05, 2:03:20

// While one lives, the first SIGINT or SIGTERM asks to stop, the second ends the program at once.
class StopOnSignal {
 public:
  StopOnSignal();
  ~StopOnSignal();
  const std::atomic<bool>* flag() const;
};

// Thrown where a signal stopped work that was saved: exit code 3.
struct Interrupted {
  std::string how_to_go_on;
};

}  // namespace fovea::app
