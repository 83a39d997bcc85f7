#pragma once

#include <cstdint>

// What a recurrent cell does after its products, all gates of a row in one pass. Gates lie side by
// side in a row, [B,G·H]; x and u are the input's and the state's products, biases included.
//   rnn   h' = tanh(u)
//   gru   r = σ(x_r + u_r), z = σ(x_z + u_z), n = tanh(x_n + r∘u_n);  h' = (1 − z)∘n + z∘h
//   lstm  i, f, o = σ(u), g = tanh(u);  c' = f∘c + i∘g;  h' = o∘tanh(c')
// where the x of rnn and lstm is already in u. Rows that are not active keep their state: their
// gates are not read, their gates' gradients are 0, and the state's gradient passes through.
// d_out (null: 0) is one more part of dh', of active rows alone: that of the step's output.
// Gradients may be written over those they come from. Results depend neither on threads nor on
// other rows.
namespace fovea::kernels {

struct CellRows {
  int64_t count = 0, hidden = 0;
  const uint8_t* active = nullptr;  // null: all
  int64_t step = 0;                 // from a row of h, h_next or d_out to the next
};

struct RnnStep {
  const float *u, *h;
  float* h_next;
};
struct RnnGradient {
  const float *h_next, *d_out, *dh_next;
  float *du, *dh;  // dh null: not wanted, as where all rows are active
};

struct GruStep {
  const float *x, *u, *h;
  float* h_next;
  float* kept;  // [B,4·H]: r, z, n, u_n; null: not kept
};
struct GruGradient {
  const float *kept, *h, *d_out, *dh_next;
  float *dx, *du, *dh;
};

struct LstmStep {
  const float *u, *h, *c;
  float *h_next, *c_next;
  float* kept;  // [B,5·H]: i, f, g, o, tanh(c'); null: not kept
};
struct LstmGradient {
  const float *kept, *c, *d_out, *dh_next, *dc_next;  // the last two may be null too
  float *du, *dh, *dc;                                // dh null: not wanted
};

// A gru's step with its products, for devices that do both in one (table.h). Products are a·Wᵀ of
// [B,k] and weights [N,k] as they are kept; k = 0: there is none.
struct RowProduct {
  const float* a = nullptr;
  int64_t a_row = 0, k = 0;
  const float* w = nullptr;
  int64_t w_row = 0;
};
struct GruWhole {  // x + fed in place of x, state + bias in place of u
  CellRows rows;
  GruStep step;
  RowProduct fed{}, state{};
  const float* bias = nullptr;  // null: 0
};
// Back through the state's product of the step after, then through the cell: dh_next + after·W in
// place of dh_next.
struct GruWholeGradient {
  CellRows rows;
  const float* after;  // [B,3·H]: du of the step after; null: none
  const float* w;      // [3·H,H]
  int64_t w_row;
  GruGradient step;
};

void rnn_forward(const CellRows&, const RnnStep&);
void rnn_backward(const CellRows&, const RnnGradient&);
void gru_forward(const CellRows&, const GruStep&);
void gru_backward(const CellRows&, const GruGradient&);
void lstm_forward(const CellRows&, const LstmStep&);
void lstm_backward(const CellRows&, const LstmGradient&);

}  // namespace fovea::kernels
