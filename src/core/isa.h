#pragma once

namespace fovea {

// Applies FOVEA_ISA, once; called before the first allocation, hence before any kernel.
void use_isa_from_environment();

// Whether products of 16 and 8 bits go to Intel's matrix unit: where there is one and "amx" is in
// use. All else is then computed by AVX-512.
bool uses_matrix_unit();

}  // namespace fovea
