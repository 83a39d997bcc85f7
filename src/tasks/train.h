#pragma once

#include "tasks/run_folder.h"
#include "tasks/task.h"

namespace fovea::tasks {

// Trains in the folder, or goes on where it holds a run; then scores what was held out and writes
// results.json and report.html, from what is in memory.
Trained train_run(const Task&, const RunFolder&, const TaskConfig&, const Watching&);

}  // namespace fovea::tasks
