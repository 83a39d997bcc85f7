#pragma once

#include <cstdint>

// Over rows of n numbers lying next to each other. Rows are independent, so the results depend
// neither on threads nor on neighbours.
namespace fovea::kernels {

struct Rows {
  int64_t count = 0, n = 0;
};

// x = 0 where a row's `keep` is 0.
void clear_rows(Rows, const uint8_t* keep, float* x);

// y = e^(x−max)/Σ; a row that is −inf throughout gives 0.
void softmax_rows(Rows, const float* x, float* y);
// dx = y·(dy − Σ y·dy)
void d_softmax_rows(Rows, const float* y, const float* dy, float* dx);

// y = x − max − ln Σ e^(x−max)
void log_softmax_rows(Rows, const float* x, float* y);
// dx = dy − e^y·Σ dy
void d_log_softmax_rows(Rows, const float* y, const float* dy, float* dx);

// y = (x − mean)·rstd·w + b, rstd = 1/√(var + ε). w and b may be null; mean null: no centring
// (root mean square). mean and rstd, one per row, are written.
struct Affine {
  const float* w = nullptr;
  const float* b = nullptr;
  float epsilon = 0.0f;
};
struct Moments {
  float* mean;
  float* rstd;
};
void norm_rows(Rows, const float* x, const Affine&, float* y, Moments);

// With x̂ = (x − mean)·rstd and g = dy·w:
//   dx = rstd·(g − [Σg/n] − x̂·Σ(g·x̂)/n), the bracket only when centred.
struct Normed {
  const float* x;
  Moments at;
  const float* dy;
};
// dw = Σ dy·x̂ and db = Σ dy over rows where they are wanted: fixed blocks of rows, then their sum.
struct NormGradients {
  float* x;
  float* w = nullptr;
  float* b = nullptr;
};
void d_norm_rows(Rows, const Normed&, const float* w, const NormGradients&);

}  // namespace fovea::kernels
