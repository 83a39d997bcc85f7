#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tasks/paper.h"
#include "tasks/task.h"

namespace fovea::tasks {

struct ReproduceOptions {
  std::string data;     // the user's; empty: built-in
  int64_t seeds = 0;    // 0: as many as the experiment needs
  double effort = 1.0;  // multiplies the training of every row
};

// Interrupted: the outcomes are fewer than the trials, and there is no page.
struct Reproduced {
  std::vector<Outcome> outcomes;
  report::Page page;
  bool interrupted = false;
};

// Trains what is not trained yet under `out`, a folder for each trial and seed, so that a stopped
// reproduction goes on where it was, or measures; writes out/report.html and out/results.json. Of a
// team, each process trains some of them by itself, and the first writes what they come to.
Reproduced reproduce(const Paper&, const std::filesystem::path& out, const ReproduceOptions&,
                     const Watching&);

}  // namespace fovea::tasks
