#pragma once

#include <filesystem>

#include "fovea/io.h"

namespace fovea {

// A safetensors file's, without reading its tensors; the header and the file's size are checked.
Metadata read_metadata(const std::filesystem::path&);

}  // namespace fovea
