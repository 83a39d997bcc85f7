#pragma once

#include <filesystem>

#include "fovea/io.h"

namespace fovea {

// A safetensors file's metadata, and its tensors by name, type and shape, none of more than a
// number: nothing of their data is read. The header and the file's size are checked.
Metadata read_metadata(const std::filesystem::path&);
Tensors sketch_safetensors(const std::filesystem::path&);

}  // namespace fovea
