#include "tasks/speed.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tasks/json_lines.h"

namespace fovea::tasks {
namespace {

constexpr const char* kSpeedFile = "speed.jsonl";

// What opens a pipe to write waits until somebody reads.
bool is_plain_or_none(const std::filesystem::path& file) {
  std::error_code ignored;
  const auto found = std::filesystem::status(file, ignored);
  return is_regular_file(found) || found.type() == std::filesystem::file_type::not_found;
}

}  // namespace

SpeedLog::SpeedLog(const RunFolder& folder, bool goes_on) {
  const std::filesystem::path file = folder / kSpeedFile;
  if (is_plain_or_none(file)) file_.open(file, goes_on ? std::ios::app : std::ios::trunc);
}

void SpeedLog::add(const train::Progress& p) {
  if (p.seconds < next_ || !std::isfinite(p.units_per_second) || p.units_per_second <= 0) return;
  next_ = 1.005 * p.seconds + 1;
  const nlohmann::ordered_json line = {{"step", p.step},
                                       {"seconds", std::round(10 * p.seconds) / 10},
                                       {"per_second", std::round(p.units_per_second)},
                                       {"unit", p.unit}};
  file_ << line.dump() << std::endl;
}

Speed speed_of(const RunFolder& folder) {
  Speed speed;
  for (const nlohmann::ordered_json& j : json_lines(folder / kSpeedFile)) {
    if (!j.is_object() || !j.contains("step") || !j["step"].is_number()) continue;
    if (!j.contains("per_second") || !j["per_second"].is_number()) continue;
    const auto step = j["step"].get<double>();
    // One that was killed goes on from an earlier step.
    while (!speed.points.empty() && speed.points.back().first >= step) speed.points.pop_back();
    speed.points.emplace_back(step, j["per_second"].get<double>());
    if (j.contains("unit") && j["unit"].is_string()) speed.unit = j["unit"].get<std::string>();
  }
  return speed;
}

}  // namespace fovea::tasks
