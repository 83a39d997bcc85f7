#pragma once

#include "tensor/tree_sum.h"

namespace fovea::train {

// The gradients of tensors, by name, which are then without.
Tensors taken_gradients(const Tensors& of);

}  // namespace fovea::train
