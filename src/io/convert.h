#pragma once

#include <cstddef>
#include <cstdint>

#include "io/safetensors_header.h"

namespace fovea::safetensors {

// n stored numbers at `from` (any alignment) to float, int64_t or uint8_t at `to`, whichever the
// type loads as. Throws Malformed where a u64 exceeds an int64.
void convert(Stored, const std::byte* from, void* to, int64_t n);

}  // namespace fovea::safetensors
