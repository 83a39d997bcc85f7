#pragma once

#include <string>
#include <vector>

#include "fovea/attention.h"
#include "kernels/optimize.h"

namespace fovea::train {

// Each tensor once: one that goes by several names stays under the first. Throws unless all are
// contiguous f32.
Parameters distinct(const char* call, const Parameters&);

// The gradients there are, of tensors that are distinct.
std::vector<Values> gradients_of(const Parameters&);

// Copies values by name. Throws, naming `source`, where one is missing, unknown or of another
// shape.
void copy_values(const Parameters& from, const Parameters& to, const std::string& source);

}  // namespace fovea::train
