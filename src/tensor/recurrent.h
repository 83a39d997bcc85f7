#pragma once

#include <span>

#include "fovea/cell.h"
#include "kernels/recurrent.h"
#include "tensor/linear.h"

namespace fovea {

// The rows of h [B,H], dense; active: bool [B] or undefined.
kernels::CellRows cell_rows(const Tensor& h, const Tensor& active);

// One step of a cell after its products, on the tape. `gates_x` is undefined where it is already
// part of gates_h: for rnn and lstm.
CellState cell_step(Cell, const Tensor& gates_x, const Tensor& gates_h, const CellState& before,
                    const Tensor& active);

struct Direction {
  Tensor gates_x;           // [T,B,G·H], the input's product
  LinearWeights recurrent;  // [G·H,H], [G·H]
};
struct Unrolled {
  Tensor sequence;  // [T,B,H·directions], 0 past a row's end
  CellState last;   // [B,H·directions]
};

// One recurrent layer in one direction or two, forward then backward, over a whole sequence as one
// operation: states are written where the output wants them, gates' gradients where W_h's product
// reads them. valid: bool [T,B], undefined: all.
Unrolled recurrent_layer(Cell, std::span<const Direction>, const Tensor& valid);

}  // namespace fovea
