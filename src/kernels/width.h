#pragma once

#include <cstdint>

namespace fovea::kernels {

// Floats that one instruction computes with, in the instruction set in use.
int64_t vector_floats();

}  // namespace fovea::kernels
