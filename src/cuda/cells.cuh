// One unit of a cell (kernels/recurrent.h).
#pragma once

#include "kernels/recurrent.h"

namespace fovea::cuda {

using kernels::CellRows;
using kernels::GruGradient;
using kernels::GruStep;

__device__ __forceinline__ float sigmoid_of(float x) { return 1.0f / (1.0f + expf(-x)); }
// Through tanh and σ, by their values.
__device__ __forceinline__ float through_tanh(float dy, float y) { return dy * fmaf(-y, y, 1.0f); }
__device__ __forceinline__ float through_sigmoid(float dy, float y) { return dy * fmaf(-y, y, y); }
__device__ __forceinline__ float or_zero(const float* x, int64_t at) { return x ? x[at] : 0.0f; }

// x_r + u_r, x_z + u_z, x_n and u_n.
struct GruGates {
  float reset, z, x_n, u_n;
};

__device__ __forceinline__ void keep_state(const CellRows& rows, const GruStep& s, int64_t r,
                                           int64_t i) {
  s.h_next[r * rows.step + i] = s.h[r * rows.step + i];
}

// Unit i of row r.
__device__ __forceinline__ void gru_unit(const CellRows& rows, const GruStep& s, int64_t r,
                                         int64_t i, const GruGates& gates) {
  const int64_t H = rows.hidden, wide = r * rows.step + i;
  const float reset = sigmoid_of(gates.reset), z = sigmoid_of(gates.z);
  const float n = tanhf(fmaf(reset, gates.u_n, gates.x_n));
  s.h_next[wide] = fmaf(z, s.h[wide], (1.0f - z) * n);
  if (!s.kept) return;
  float* kept = s.kept + r * 4 * H + i;
  kept[0] = reset, kept[H] = z, kept[2 * H] = n, kept[3 * H] = gates.u_n;
}

__device__ __forceinline__ void d_gru_unit(const CellRows& rows, const GruGradient& g, int64_t r,
                                           int64_t i, bool active, float dh_next) {
  const int64_t H = rows.hidden, wide = r * rows.step + i;
  float *dx = g.dx + r * 3 * H + i, *du = g.du + r * 3 * H + i;
  if (!active) {
    dx[0] = dx[H] = dx[2 * H] = du[0] = du[H] = du[2 * H] = 0.0f;
    g.dh[r * H + i] = dh_next;
    return;
  }
  const float* kept = g.kept + r * 4 * H + i;
  const float reset = kept[0], z = kept[H], n = kept[2 * H], u_n = kept[3 * H];
  const float dh = or_zero(g.d_out, wide) + dh_next;
  const float dn = through_tanh(dh * (1.0f - z), n);
  const float dz = through_sigmoid(dh * (g.h[wide] - n), z);
  const float dr = through_sigmoid(dn * u_n, reset);
  dx[0] = dr, dx[H] = dz, dx[2 * H] = dn;
  du[0] = dr, du[H] = dz, du[2 * H] = dn * reset;
  g.dh[r * H + i] = dh * z;
}

}  // namespace fovea::cuda
