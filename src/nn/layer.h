#pragma once

#include <span>

#include "fovea/nn.h"

namespace fovea::nn {

struct LayerOutput {
  Tensor sequence;  // [T,B,H·directions], 0 past a row's end
  State last;       // [B,H·directions]
};

// One recurrent layer in one direction or two, forward then backward, over a whole sequence as one
// operation: states are written where the output wants them, gates' gradients where W_h's product
// reads them. x [T,B,I]; valid: bool [T,B], undefined: all.
LayerOutput layer(std::span<const CellWeights> directions, const Tensor& x, const Tensor& valid);

}  // namespace fovea::nn
