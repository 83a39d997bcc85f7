#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "report/picture.h"

// What all kinds of pictures share when they become files.
namespace fovea::report {

std::string dump(const nlohmann::ordered_json&);  // in one line; what is no UTF-8 is replaced
std::string quoted(const std::string& cell);      // of CSV
// The first line of a CSV of weights: labels, which may repeat, then positions from 1, which do
// not.
inline constexpr const char* kCellNames = "picture,row,column,weight,row_number,column_number\r\n";
void write_file(const std::filesystem::path&, const std::string& bytes);  // whole or not at all

// A drawing as a file: its style, paper, and what is drawn on it.
Drawing svg_file(double width, double height, std::string_view style, const std::string& body);

// Pixels for each unit of a drawing that becomes PNG: two, so that letters are sharp, unless it is
// large without that. Throws where it is too large: `what` says of what it would be ("3 texts").
double png_scale(double width, double height, const std::string& what);

}  // namespace fovea::report
