#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

// What all kinds of pictures share when they become files.
namespace fovea::report {

std::string dump(const nlohmann::ordered_json&);  // in one line; what is no UTF-8 is replaced
void write_file(const std::filesystem::path&, const std::string& bytes);  // whole or not at all

// Pixels for each unit of a drawing that becomes PNG: two, so that letters are sharp, unless it is
// large without that. Throws where it is too large: `what` says of what it would be ("3 texts").
double png_scale(double width, double height, const std::string& what);

}  // namespace fovea::report
