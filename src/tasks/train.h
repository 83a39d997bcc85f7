#pragma once

#include "tasks/claim.h"
#include "tasks/run_folder.h"
#include "tasks/task.h"

namespace fovea::tasks {

// A run from its beginning, or from where it was, to its report. Nothing of a run that is there
// changes until the folder is held and the settings, the data and the model are known to be good.
// By a team, all ranks make the call, and read the same data; the first one alone writes. What they
// differ in is said before the first step.
Trained train_run(const Task&, const RunFolder&, TaskConfig&, Existing, const Watching&);

}  // namespace fovea::tasks
