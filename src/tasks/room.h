#pragma once

#include <cstdint>
#include <string>

#include "fovea/train.h"

namespace fovea::tasks {

// Throws where so many weights take more memory to train than there is, before any is taken. For
// begin(), once the shapes are known; `settings` are the options that make the model smaller.
void check_room(int64_t weights, const train::TrainConfig&, const std::string& settings);

}  // namespace fovea::tasks
