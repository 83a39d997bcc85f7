#pragma once

#include <atomic>
#include <functional>

#include "fovea/train.h"
#include "team/team.h"
#include "train/log.h"

namespace fovea::train {

void check(const Learner&, const TrainConfig&);  // throws where they cannot be trained

// Where a training goes on, and who hears of it.
struct Session {
  RunLog* log;  // of a folder that is held already, at the team's first rank; null at others
  team::Team& team = team::alone();
  std::function<void(const Progress&)> report = {};  // the first rank's
  const std::atomic<bool>* stop = nullptr;           // any rank's
};
// train(), by a team: all ranks make the call with the same settings and the same data, share each
// step's batches, and end with the same weights, bit for bit those that one process ends with. The
// first validates and writes; so a run goes on with any number of ranks.
Finished train(const Session&, Learner&, const TrainConfig&);

}  // namespace fovea::train
