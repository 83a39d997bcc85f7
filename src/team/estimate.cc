#include "team/estimate.h"

#include <algorithm>
#include <cmath>

namespace fovea::team {

Estimate estimate(const Work& work, const Network& network, const Machines& machines,
                  int64_t count) {
  constexpr double kBucket = 4 << 20, kMessage = 64 << 10;
  const double R = static_cast<double>(count), P = static_cast<double>(work.weights);
  const double bytes = P * sizeof(float);
  const double buckets = count == 1 ? 0 : std::ceil(bytes / std::max(kBucket, kMessage * R));
  Estimate e;
  e.traffic = 2 * bytes * (R - 1) / R;
  e.step_seconds = work.seconds + e.traffic / network.bandwidth +
                   2 * (R - 1) * network.latency * buckets +
                   work.variation * work.seconds * std::sqrt(2 * std::log(R));
  e.memory = P * (static_cast<double>(work.kept) + static_cast<double>(work.shared) / R);

  const double saving = P * (sizeof(float) + static_cast<double>(work.shared)) / machines.disk;
  e.failure_hours = machines.hours_to_failure / R;
  const double between = 3600 * e.failure_hours;
  e.save_seconds = std::sqrt(2 * saving * between);
  const double lost =
      saving / e.save_seconds + e.save_seconds / (2 * between) + machines.restart_seconds / between;
  e.efficiency = work.seconds / e.step_seconds / (1 + lost);
  return e;
}

}  // namespace fovea::team
