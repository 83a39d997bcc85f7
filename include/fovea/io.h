#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "fovea/api.h"
#include "fovea/tensor.h"

// Tensors travel as safetensors files (docs/safetensors.md). Floating-point numbers become f32,
// integers i64, BOOL bool. Whatever a file says is checked before memory is taken for it; what does
// not hold throws fovea::Error.
namespace fovea {

using Metadata = std::map<std::string, std::string>;  // texts by name, in a file's header

struct TensorFile {  // all that a file holds
  Tensors tensors;
  Metadata metadata;
};

FOVEA_API TensorFile read_safetensors(const std::filesystem::path&);  // all of a file
FOVEA_API TensorFile parse_safetensors(std::span<const std::byte>);
FOVEA_API Tensors load_safetensors(const std::filesystem::path&);  // the tensors alone
// Of these names, those that are there; nothing else is read.
FOVEA_API Tensors load_safetensors(const std::filesystem::path&,
                                   const std::vector<std::string>& names);

// Whole or not at all: a temporary file in the same folder is written, synced and renamed over
// `path`, so an old file there is intact until the new one is complete, and whoever has the old one
// open or mapped keeps its bytes.
FOVEA_API void save_safetensors(const std::filesystem::path& path, const Tensors&,
                                const Metadata& = {});

// Throws, naming the tensor, what was expected and what was found, unless `tensor` is there and has
// this shape. −1 stands for any size.
FOVEA_API void expect_shape(const std::string& name, const Tensor& tensor, const Shape& shape);

}  // namespace fovea
