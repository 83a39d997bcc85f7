#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "fovea/io.h"

namespace fovea {

// A safetensors file's metadata and its tensors' shapes, without reading its tensors; the header
// and the file's size are checked.
Metadata read_metadata(const std::filesystem::path&);
std::map<std::string, Shape> read_shapes(const std::filesystem::path&);

}  // namespace fovea
