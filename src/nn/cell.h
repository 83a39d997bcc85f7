#pragma once

#include "fovea/nn.h"

namespace fovea::nn {

// One step of a cell after its products, on the tape. `gates_x` is undefined where it is already
// part of gates_h: for rnn and lstm.
State cell_step(Cell, const Tensor& gates_x, const Tensor& gates_h, const State& before,
                const Tensor& active);

}  // namespace fovea::nn
