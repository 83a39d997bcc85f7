#pragma once

#include "tasks/task.h"
#include "team/estimate.h"

namespace fovea::tasks {

// What a training with these settings has to do in a step, on this machine: the model is made, the
// data are read, and some batches are learned from; nothing is written.
team::Work measured_work(const Task&, TaskConfig&, const Watching&);

}  // namespace fovea::tasks
