#include "tasks/room.h"

#include <fmt/format.h>

namespace fovea::tasks {

void check_room(int64_t weights, const train::TrainConfig& config, const std::string& settings) {
  check_room("train",
             fmt::format("a training of {:.1f} million weights (with gradients and the optimizer's "
                         "state)",
                         static_cast<double>(weights) / 1e6),
             train::memory_of(weights, config), settings);
}

}  // namespace fovea::tasks
