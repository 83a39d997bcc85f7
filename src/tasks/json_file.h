#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

namespace fovea::tasks {

// JSON files that are whole or not there. Reading checks size, UTF-8 and depth.
void write_json(const std::filesystem::path&, const nlohmann::ordered_json&);
nlohmann::ordered_json read_json(const std::filesystem::path&);

}  // namespace fovea::tasks
