#pragma once

#include <cstdint>
#include <string>

#include "fovea/train.h"

namespace fovea::tasks {

// Throws where `what` ("a model of this size") needs more bytes than there are, before any is
// taken; `settings` are the options that make it smaller.
void check_room(const char* call, const std::string& what, int64_t bytes,
                const std::string& settings);

// Throws where so many weights take more memory to train than there is. For begin(), once the
// shapes are known.
void check_room(int64_t weights, const train::TrainConfig&, const std::string& settings);

}  // namespace fovea::tasks
