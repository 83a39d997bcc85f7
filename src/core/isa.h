#pragma once

namespace fovea {

// Applies FOVEA_ISA, once; called before the first allocation, hence before any kernel.
void use_isa_from_environment();

}  // namespace fovea
