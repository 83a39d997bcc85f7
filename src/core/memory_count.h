#pragma once

#include <cstdint>

namespace fovea {

// Memory of other devices, which memory_in_use() counts as well: taken, or given back where it is
// negative.
void count_memory(int64_t bytes);

}  // namespace fovea
