#pragma once

#include <cstdint>

#include "fovea/api.h"
#include "fovea/tensor.h"

namespace fovea {

// Recurrent cells; gates in PyTorch's order.
//   rnn   h' = tanh(W_x x + b_x + W_h h + b_h)
//   gru   r, z = σ(·);  n = tanh(W_x x + b_x + r ∘ (W_h h + b_h));  h' = (1 − z) ∘ n + z ∘ h
//   lstm  i, f, g, o;   c' = f ∘ c + i ∘ g;  h' = o ∘ tanh(c')
enum class Cell : uint8_t { rnn, gru, lstm };
FOVEA_API const char* name_of(Cell);
FOVEA_API int64_t gates_of(Cell);  // 1, 3, 4

struct CellState {
  Tensor h;  // [B,H]
  Tensor c;  // [B,H], lstm alone
};

}  // namespace fovea
