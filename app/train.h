#pragma once

#include "app/progress.h"
#include "app/stop_on_signal.h"
#include "tasks/train.h"
#include "team/team.h"

namespace fovea::app {

// Who watches a training here: the first rank tells on stderr how far it is, a signal stops it.
class Watcher {
 public:
  explicit Watcher(team::Team&);
  const tasks::Watching& watching() const { return watching_; }

 private:
  ProgressLine line_;
  StopOnSignal signals_;
  tasks::Watching watching_;
};

struct ToTrain {
  const tasks::Task& task;
  const tasks::RunFolder& folder;
  tasks::TaskConfig& config;
  tasks::Existing existing;
};
// Trains with progress on stderr, stopping cleanly on a signal.
tasks::Trained train_showing(const ToTrain&, team::Team& = team::alone());

}  // namespace fovea::app
