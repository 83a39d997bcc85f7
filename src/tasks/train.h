#pragma once

#include "tasks/claim.h"
#include "tasks/run_folder.h"
#include "tasks/task.h"

namespace fovea::team {
class Team;
}

namespace fovea::tasks {

struct Training {
  const Task& task;
  const RunFolder& folder;
  TaskConfig& config;
  Former former;
  const Watching& watching;
};

// A run from its beginning, or from where it was, to its report. Nothing of a run that is there
// changes until the folder is held and the settings, the data and the model are known to be good.
// By a team, all ranks make the call, and read the same data; the first one alone writes, and
// alone has the scores. What they differ in is said before the first step.
Trained train_run(const Training&, team::Team&);
Trained train_run(const Task&, const RunFolder&, TaskConfig&, Former, const Watching&);  // alone

}  // namespace fovea::tasks
