#pragma once

#include "kernels/table.h"

// A device for tests, which every machine has. Its memory lies in pages that nobody may touch but a
// call of its table, and its calls refuse pointers to the host's: what would be wrong on a GPU is
// found without one. It computes by the CPU's kernels, and refuses what devices refuse.
namespace fovea::test {

const kernels::Kernels& shadow_kernels();

}  // namespace fovea::test
