#pragma once

#include <cstdint>
#include <string>

#include "core/memory_available.h"
#include "fovea/train.h"

namespace fovea::tasks {

using fovea::check_room;

// Throws where so many weights take more memory to train than there is. For begin(), once the
// shapes are known.
void check_room(int64_t weights, const train::TrainConfig&, const std::string& settings);

}  // namespace fovea::tasks
