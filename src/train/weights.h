#pragma once

#include <string>
#include <vector>

#include "fovea/tensor.h"
#include "kernels/table.h"

namespace fovea::train {

// Each tensor once: one that goes by several names stays under the first. Throws unless all are
// contiguous f32.
Tensors distinct(const char* call, const Tensors&);

// The device they are on; throws unless that is one.
const kernels::Kernels& device_of(const char* call, const Tensors&);

// The gradients there are, of tensors that are distinct.
std::vector<kernels::Values> gradients_of(const Tensors&);

// Throws, naming `source`, where one is missing, unknown or of another shape or type.
void expect_like(const Tensors& from, const Tensors& to, const std::string& source);
// Copies values by name, where they are so.
void copy_values(const Tensors& from, const Tensors& to, const std::string& source);

}  // namespace fovea::train
