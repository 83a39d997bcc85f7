#include "tasks/room.h"

#include <fmt/format.h>

#include "core/memory_available.h"
#include "fovea/error.h"

namespace fovea::tasks {

void check_room(int64_t weights, const train::TrainConfig& config, const std::string& settings) {
  const int64_t needed = train::memory_of(weights, config), there = memory_available();
  if (needed <= there) return;
  const auto gb = [](int64_t bytes) { return static_cast<double>(bytes) / 1e9; };
  throw Error("train",
              fmt::format("{:.1f} million weights need {:.1f} GB to be trained (with "
                          "gradients and the optimizer's state), and {:.1f} GB are free; "
                          "lower {}",
                          static_cast<double>(weights) / 1e6, gb(needed), gb(there), settings));
}

}  // namespace fovea::tasks
