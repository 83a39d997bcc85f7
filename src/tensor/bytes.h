#pragma once

#include <cstddef>

#include "fovea/tensor.h"

namespace fovea {

// The first element of a tensor on the CPU, whatever its type, for who reads it from a file or
// writes it to one.
std::byte* bytes_of(const Tensor&);

}  // namespace fovea
