#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace fovea::tasks {

// The lines of a file that is being written, as far as they are whole: the last one may be cut.
// None where there is no such file.
std::vector<nlohmann::ordered_json> json_lines(const std::filesystem::path&);

}  // namespace fovea::tasks
