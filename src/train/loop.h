#pragma once

#include <atomic>
#include <functional>

#include "fovea/train.h"
#include "train/log.h"

namespace fovea::train {

void check(const Learner&, const TrainConfig&);  // throws where they cannot be trained

// train() in a folder that is held already.
Finished train(RunLog&, Learner&, const TrainConfig&,
               const std::function<void(const Progress&)>& report, const std::atomic<bool>* stop);

}  // namespace fovea::train
