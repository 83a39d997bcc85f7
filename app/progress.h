#pragma once

#include <string>

#include "fovea/train.h"
#include "report/picture.h"

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
// As standard output shows it: in colours, or plain where it is no terminal.
std::string terminal_text(const report::Picture&);
std::string duration(double seconds);  // 1:05, 2:03:20

}  // namespace fovea::app
