#pragma once

#include "tasks/train.h"
#include "team/team.h"

namespace fovea::app {

struct ToTrain {
  const tasks::Task& task;
  const tasks::RunFolder& folder;
  tasks::TaskConfig& config;
  tasks::Existing existing;
};
// Trains with progress on stderr, stopping cleanly on a signal.
tasks::Trained train_showing(const ToTrain&, team::Team& = team::alone());

}  // namespace fovea::app
