#pragma once

#include "kernels/table.h"

// A device for tests, which every machine has. The addresses of its memory are for nobody but the
// calls of its table, and its calls refuse pointers to the host's: what would be wrong on a GPU is
// found without one. It computes by the CPU's kernels, and refuses what devices refuse.
namespace fovea::test {

const kernels::Kernels& shadow_kernels();

}  // namespace fovea::test
