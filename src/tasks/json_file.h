#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>

namespace fovea::tasks {

// JSON files that are whole or not there. Reading checks size, UTF-8 and depth.
void write_json(const std::filesystem::path&, const nlohmann::ordered_json&);
inline constexpr int64_t kLargestJson = int64_t{64} << 20;  // bytes
nlohmann::ordered_json read_json(const std::filesystem::path&, int64_t largest = kLargestJson);

}  // namespace fovea::tasks
