#pragma once

#include "tasks/train.h"

namespace fovea::app {

// Trains with progress on stderr, stopping cleanly on a signal.
tasks::Trained train_showing(const tasks::Task&, const tasks::RunFolder&, tasks::TaskConfig&,
                             tasks::Former);

}  // namespace fovea::app
