#pragma once

#include <string>

#include "kernels/module.h"

namespace fovea::cuda {

// libfovea_cuda.so, opened at the first call: the file that FOVEA_CUDA_MODULE names, or the one
// beside the program, a folder above it or in ../lib, or the one that the system finds. Throws
// Error where it is missing, cannot be loaded or has another version.
const Module& open_module();
// This file.
const Module& open_module(const std::string& file);

}  // namespace fovea::cuda
