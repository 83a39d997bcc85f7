#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tasks/fields.h"

namespace fovea::tasks {

using Visit = std::function<void(Fields&)>;

nlohmann::ordered_json to_json(const Visit&);
// Sets the fields that `object` has. An unknown name, a wrong type or a value out of range throws,
// naming `where`, the field, what was expected and what was found.
void from_json(const nlohmann::ordered_json& object, const Visit&, const std::string& where);
// The same from options of a command line, as they were typed.
void from_options(const std::map<std::string, std::string>& given, const Visit&);

// JSON files that are whole or not there. Reading checks size, UTF-8 and depth.
void write_json(const std::filesystem::path&, const nlohmann::ordered_json&);
nlohmann::ordered_json read_json(const std::filesystem::path&);

}  // namespace fovea::tasks
