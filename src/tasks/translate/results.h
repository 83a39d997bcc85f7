#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "tasks/translate.h"

namespace fovea::tasks {

nlohmann::ordered_json to_json(const train::Scores&);
nlohmann::ordered_json to_json(const Evaluation&);
Evaluation evaluation_from_json(const nlohmann::ordered_json&);

// results.json: how the run ended and what it scored.
void save_results(const std::filesystem::path& run, const Trained&);

}  // namespace fovea::tasks
