#pragma once

#include <nanobind/nanobind.h>

namespace fovea::python {

// What JAX calls, as capsules for jax.ffi.register_ffi_target, and the choices they know by name.
void bind_jax(nanobind::module_&);

}  // namespace fovea::python
