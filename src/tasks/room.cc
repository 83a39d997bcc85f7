#include "tasks/room.h"

#include <fmt/format.h>

#include "core/memory_available.h"
#include "fovea/error.h"

namespace fovea::tasks {

void check_room(const char* call, const std::string& what, int64_t bytes,
                const std::string& settings) {
  const int64_t there = memory_available();
  if (bytes <= there) return;
  const auto gb = [](int64_t n) { return static_cast<double>(n) / 1e9; };
  throw Error(call, fmt::format("{} needs {:.1f} GB, and {:.1f} GB are free; lower {}", what,
                                gb(bytes), gb(there), settings));
}

void check_room(int64_t weights, const train::TrainConfig& config, const std::string& settings) {
  check_room("train",
             fmt::format("a training of {:.1f} million weights (with gradients and the optimizer's "
                         "state)",
                         static_cast<double>(weights) / 1e6),
             train::memory_of(weights, config), settings);
}

}  // namespace fovea::tasks
