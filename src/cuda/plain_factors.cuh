// Weighting none: a score that is NaN has a gradient all the same, ds = dw. What is not finite in q
// and k counts as 0 in the long path's sums; here it is added to its features of dq, dk and du.
// Where all is finite this reads q and k once, and a byte a pair.
#pragma once

#include "cuda/general_rows.cuh"

namespace fovea::cuda {

struct FactorCall {
  Chunk c;               // e holds ds
  const uint8_t* q_bad;  // [B·H·Lq]: something there is not finite
  const uint8_t* k_bad;  // [B·Hk·Lk]
};

// bad[row] of x [.,heads,L,D], a warp a row.
static __global__ __launch_bounds__(kTeamBlock) void find_bad_rows(View<const float> x, int heads,
                                                                   int L, int D, int rows,
                                                                   uint8_t* bad) {
  const Team<kWarp> team;
  const int row = team.row();
  if (row >= rows) return;
  const float* const from = row_of(x, row / L / heads, row / L % heads, row % L);
  bool found = false;
  for (int d = team.rank; d < D; d += kWarp) found = found || !finite(from[d * x.c]);
  found = team.any(found);
  if (team.rank == 0) bad[row] = found;
}

// What a pair adds to a feature besides what was summed, where `other` is the factor of ds: the
// key's for dq, the query's for dk.
__device__ __forceinline__ float left_out(const AttentionProblem& p, float ds, float own,
                                          float other) {
  if (p.family == Family::additive) return own != own || other != other ? not_a_number() : 0.0f;
  return finite(other) ? 0.0f : ds * other;
}

// A block a query.
static __global__ __launch_bounds__(kTeamBlock) void add_left_out_keys(
    const __grid_constant__ AttentionProblem p, const __grid_constant__ AttentionGradients g,
    const __grid_constant__ FactorCall x) {
  const Team<kTeamBlock> team;
  const TeamRow at(p, x.c, team.row());
  const float* const ds = x.c.e + at.scores;
  const bool q_bad = x.q_bad[at.row];
  const auto matters = [&](int j) { return (q_bad || x.k_bad[at.keys + j]) && ds[j] != 0.0f; };
  bool any = false;
  for (int j = team.rank; j < p.Lk; j += kTeamBlock) any = any || matters(j);
  if (!team.any(any)) return;
  const float* const q = row_of(p.q, at.at.b, at.at.h, at.at.i);
  const float* const k = row_of(p.k, at.at.b, at.hk, 0);
  for (int d = team.rank; d < p.D; d += kTeamBlock) {
    float sum = 0.0f;
#pragma unroll 1
    for (int j = 0; j < p.Lk; ++j) {
      if (matters(j)) sum += left_out(p, ds[j], q[d * p.q.c], k[j * p.k.r + d * p.k.c]);
    }
    if (sum == 0.0f) continue;
    if (g.dq.data) {
      row_of(g.dq, at.at.b, at.at.h, at.at.i)[d * g.dq.c] += sum * (p.scale / p.temperature);
    }
    if (g.du) g.du[d] = not_a_number();
  }
}

// A block a key of a group of heads.
static __global__ __launch_bounds__(kTeamBlock) void add_left_out_queries(
    const __grid_constant__ AttentionProblem p, const __grid_constant__ AttentionGradients g,
    const __grid_constant__ FactorCall x) {
  const Team<kTeamBlock> team;
  const int Lk = static_cast<int>(p.Lk), H = static_cast<int>(p.H), j = blockIdx.x % Lk;
  const int group = H / static_cast<int>(p.Hk), first = blockIdx.x / Lk * group;
  const int z = x.c.z + first, b = z / H, hk = z % H / group, rows = group * x.c.rows;
  const bool k_bad = x.k_bad[(static_cast<size_t>(b) * p.Hk + hk) * Lk + j];
  const auto gradient = [&](int t) {
    return x.c.e[x.c.at(first + t / x.c.rows, t % x.c.rows) + j];
  };
  const auto matters = [&](int t) {
    const size_t row = static_cast<size_t>(z + t / x.c.rows) * p.Lq + x.c.row + t % x.c.rows;
    return (k_bad || x.q_bad[row]) && gradient(t) != 0.0f;
  };
  bool any = false;
#pragma unroll 1
  for (int t = team.rank; t < rows; t += kTeamBlock) any = any || matters(t);
  if (!team.any(any)) return;
  const float* const k = row_of(p.k, b, hk, j);
  for (int d = team.rank; d < p.D; d += kTeamBlock) {
    float sum = 0.0f;
#pragma unroll 1
    for (int t = 0; t < rows; ++t) {
      const int h = z % H + t / x.c.rows, i = x.c.row + t % x.c.rows;
      const float q = row_of(p.q, b, h, i)[d * p.q.c];
      if (matters(t)) sum += left_out(p, gradient(t), k[d * p.k.c], q);
    }
    if (sum != 0.0f) row_of(g.dk, b, hk, j)[d * g.dk.c] += sum * (p.scale / p.temperature);
  }
}

}  // namespace fovea::cuda
