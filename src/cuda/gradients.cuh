// The long path: gradients of the additive scores. With g the gradient of a score and r = 1/x,
// x = 1 + e^{2(q+k)}:
//
//   1 − tanh² = 4(r − r²), so dq = 4u Σ_j g(r − r²), dk = 4u Σ_i g(r − r²), du = Σ g − 2 Σ g·r
//
// Lanes go over features, two each, so that none of the sums needs a shuffle: dq of a warp's 16
// rows stays in registers, X and g lie in shared memory, and dk of 8 keys is summed over the
// block's warps there, in order. Each block has 64 features, all rows of its warps and a range of
// keys; dk by blocks of rows and dq by ranges of keys are summed afterwards (adding into memory
// atomically was no faster). Half of the reciprocals are shared by the lane's two features, where
// every x of the warp's rows and 32 keys is below 1e18. A block some of whose inputs are far apart
// (additive.cuh) keeps q and k instead of X and Y, and takes an exponential a term besides.
//
// H200, B 8 L 1024 A 256: 626 µs of 1117 backward. A term takes 8.6 cycles of a scheduler with
// everything in registers; this reaches 88 % of that. No pairs: 663 µs, all paired: 635, X in
// registers: 638; sums in half precision 585, with errors of 1e-3.
#pragma once

#include "cuda/scores.cuh"

namespace fovea::cuda {

struct GradientCall {
  Chunk c;               // e holds g
  int ranges, keys;      // of keys, and how many each has: a multiple of 32
  View<float> whole_dq;  // where one range has all keys; data null: parts
  float* dq;             // [range][head][rows][width]
  float* dk;             // [block of rows][head][Lk][width]
  float* gr;             // [head][block of rows][range][width]: Σ g·r
};

// Rows of a block: 16 a warp. More warps leave fewer parts of dk, and need more shared memory.
template <int kWarps>
constexpr size_t gradient_shared() {
  constexpr int kRows = 16 * kWarps;
  return sizeof(float) * (2 * kRows * 32 + 2 * 32 * 64 + 2 * kWarps * 8 * 64 + kRows * 64);
}

// The sums of 16 rows and 4 keys, two features. y holds Y of the second feature first.
template <Terms kTerms>
__device__ __forceinline__ void add_terms(const float* gs, const float* xs, const float2 (&y)[4],
                                          float2 (&dq)[16], float2 (&dk)[4], float2& gr) {
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const float4 g4 = *reinterpret_cast<const float4*>(gs + i * 32);
    const float2 x = *reinterpret_cast<const float2*>(xs + i * 64);
    const float g[4] = {g4.x, g4.y, g4.z, g4.w};
    float r0[4], r1[4];
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      if (kTerms == Terms::apart) {
        r0[n] = finite_fraction(x.x + y[n].y);
        r1[n] = finite_fraction(x.y + y[n].x);
        continue;
      }
      r0[n] = fmaf(x.x, y[n].y, 1.0f);
      r1[n] = fmaf(x.y, y[n].x, 1.0f);
    }
#pragma unroll
    for (int n = 0; n < 4 && kTerms != Terms::apart; ++n) {
      if (kTerms == Terms::paired && n % 2 == 1) {
        const float both = reciprocal(r0[n] * r1[n]), first = both * r1[n];
        r1[n] = both * r0[n];
        r0[n] = first;
      } else {
        r0[n] = reciprocal(r0[n]);
        r1[n] = reciprocal(r1[n]);
      }
    }
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const float c0 = fmaf(-r0[n], r0[n], r0[n]), c1 = fmaf(-r1[n], r1[n], r1[n]);
      dq[i].x = fmaf(g[n], c0, dq[i].x);
      dk[n].x = fmaf(g[n], c0, dk[n].x);
      gr.x = fmaf(g[n], r0[n], gr.x);
      dq[i].y = fmaf(g[n], c1, dq[i].y);
      dk[n].y = fmaf(g[n], c1, dk[n].y);
      gr.y = fmaf(g[n], r1[n], gr.y);
    }
  }
}

// The keys that rows of the block may see, in whole steps of 32, within those of the block.
__device__ inline int2 steps_seen(const Prepared& in, const Chunk& c, int z, int i0, int n,
                                  int2 keys) {
  const int2 seen = keys_seen(in, c, z, i0, n);
  const int low = max(seen.x, keys.x), high = min(seen.y, keys.y);
  if (low >= high) return {keys.x, keys.x};
  return {low / 32 * 32, min(keys.y, round_up(high, 32))};
}

// A block's rows and range of keys; xs, ys, gs and ks lie in shared memory.
template <int kWarps, bool kApartRows>
struct GradientBlock {
  static constexpr int kThreads = 32 * kWarps, kRows = 16 * kWarps;
  const AttentionProblem& p;
  const Prepared& in;
  const GradientCall& to;
  float *gs, *ys, *ks, *xs;  // [2][rows][32], [2][32][64], [2][warp][8 keys][64], [rows][64]
  int tid, warp, lane, a0, block, range, head, z, zk, i0, Lk, steps;
  int2 mine, keys;  // the range's, and what rows see of them
  const float *y_from, *g_from;
  float* dk_to;
  float2 x_most{}, dq[16], gr{};

  __device__ __forceinline__ GradientBlock(const AttentionProblem& problem,
                                           const Prepared& prepared, const GradientCall& call,
                                           float* shared)
      : p(problem), in(prepared), to(call), gs(shared), tid(threadIdx.x) {
    ys = gs + 2 * kRows * 32, ks = ys + 2 * 32 * 64, xs = ks + 2 * kWarps * 8 * 64;
    warp = tid / kWarp, lane = tid % kWarp, a0 = blockIdx.x * 64 + lane * 2;
    // The last rows first: under a causal mask they have the most to do.
    const int turn = gridDim.y - 1 - blockIdx.y, H = static_cast<int>(p.H);
    block = turn / to.ranges, range = turn % to.ranges, head = blockIdx.z;
    z = to.c.z + head, i0 = block * kRows, Lk = static_cast<int>(p.Lk);
    zk = z / H * static_cast<int>(p.Hk) + z % H / (H / static_cast<int>(p.Hk));
    mine = {range * to.keys, min(Lk, range * to.keys + to.keys)};
    keys = steps_seen(in, to.c, z, i0, kRows, mine);
    steps = parts(keys.y - keys.x, 32);
    y_from = in.y + static_cast<size_t>(zk) * Lk * in.width + blockIdx.x * 64;
    dk_to = to.dk + (static_cast<size_t>(block) * to.c.heads + head) * Lk * in.width + a0;
    g_from = to.c.e + to.c.at(head, i0);
  }

  // Whether some query and some key of the block are far apart.
  __device__ __forceinline__ bool some_apart() const {
    const Extent* const of_queries = in.q_extent + static_cast<size_t>(z) * in.query_parts;
    Extent queries{0.0f, 0.0f};
    for (int r = 0; r < kRows; r += kPart) {
      queries = both(queries, of_queries[min((to.c.row + i0 + r) / kPart, in.query_parts - 1)]);
    }
    bool apart = false;
    for (int t = tid; t < steps; t += kThreads) {
      const size_t part = static_cast<size_t>(zk) * in.key_parts + keys.x / kPart + t;
      apart = apart || far_apart(queries, in.k_extent[part], in.line[2]);
    }
    return __syncthreads_or(apart);
  }

  // k instead of Y, swapped alike.
  __device__ __forceinline__ void copy_keys(float* y_to, int j) const {
    const int D = static_cast<int>(p.D), Hk = static_cast<int>(p.Hk);
    for (int t = tid; t < 32 * 64; t += kThreads) {
      const int r = j + t / 64, a = blockIdx.x * 64 + t % 64;
      const float* const key = row_of(p.k, zk / Hk, zk % Hk, min(r, Lk - 1));
      y_to[t ^ 1] = a < D ? key[a * p.k.c] : 0.0f;
    }
  }

  // g and Y of step t on their way.
  __device__ __forceinline__ void copy(int t) const {
    if (t < steps) {
      const int j = keys.x + t * 32;
      float* const g_to = gs + (t & 1) * kRows * 32;
      float* const y_to = ys + (t & 1) * 32 * 64;
#pragma unroll
      for (int s = 0; s < kRows * 8 / kThreads; ++s) {
        const int r = tid / 8 + kThreads / 8 * s,
                  o = tid % 8 * 4;  // e has room for the block's rows
        copy16(g_to + r * 32 + o, g_from + r * to.c.padded_keys + j + o, i0 + r < to.c.rows);
      }
      if constexpr (kApartRows) copy_keys(y_to, j);
#pragma unroll
      for (int s = 0; s < 32 * 16 / kThreads && !kApartRows; ++s) {
        const int q = tid + s * kThreads, r = q / 16, o = q % 16 * 4;
        const bool there = j + r < Lk;
        copy16(y_to + r * 64 + o, y_from + (there ? (j + r) * in.width + o : 0), there);
      }
    }
    copies_commit();
  }

  __device__ __forceinline__ float2 query(int r) const {
    const int H = static_cast<int>(p.H);
    const float* const row = row_of(p.q, z / H, z % H, to.c.row + r);
    return {a0 < p.D ? row[a0 * p.q.c] : 0.0f, a0 + 1 < p.D ? row[(a0 + 1) * p.q.c] : 0.0f};
  }

  // X of the warp's rows; and dk of keys that no row of the block sees.
  __device__ __forceinline__ void begin() {
    const float2 constant = *reinterpret_cast<const float2*>(in.constant + a0);
    const float2 inverse{1.0f / constant.x,
                         1.0f / constant.y};  // x = X·Y + c of the scores, over c
#pragma unroll
    for (int i = 0; i < 16; ++i) dq[i] = {};
#pragma unroll 4
    for (int i = 0; i < 16; ++i) {
      const int r = i0 + warp * 16 + i;
      float2 x{};
      if (kApartRows && r < to.c.rows) {
        x = query(r);
      } else if (r < to.c.rows) {
        const size_t row = static_cast<size_t>(z) * p.Lq + to.c.row + r;
        x = *reinterpret_cast<const float2*>(in.x + row * in.width + a0);
      }
      if (!kApartRows) x = {x.x * inverse.x, x.y * inverse.y};
      x_most = {fmaxf(x_most.x, x.x), fmaxf(x_most.y, x.y)};
      *reinterpret_cast<float2*>(xs + (warp * 16 + i) * 64 + lane * 2) = x;
    }
    for (int j = mine.x + warp; j < mine.y; j += kWarps) {
      if (j < keys.x || j >= keys.y) *reinterpret_cast<float2*>(dk_to + j * in.width) = {};
    }
  }

  // Four keys of step t, from j on; their dk into shared memory.
  __device__ __forceinline__ void add_four(int t, int j, bool wide, int buffer) {
    const float* const g = gs + (t & 1) * kRows * 32 + warp * 16 * 32;
    const float* const y_at = ys + (t & 1) * 32 * 64 + lane * 2;
    const float* const x = xs + warp * 16 * 64 + lane * 2;
    float2 y[4], dk[4];
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      y[n] = *reinterpret_cast<const float2*>(y_at + (j + n) * 64);
      dk[n] = {};
    }
    if (kApartRows) {
      add_terms<Terms::apart>(g + j, x, y, dq, dk, gr);
    } else if (wide) {
      add_terms<Terms::single>(g + j, x, y, dq, dk, gr);
    } else {
      add_terms<Terms::paired>(g + j, x, y, dq, dk, gr);
    }
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      float* const at = ks + ((buffer * kWarps + warp) * 8 + j % 8 + n) * 64 + lane * 2;
      *reinterpret_cast<float2*>(at) = dk[n];
    }
  }

  // dk of eight keys from j on, summed over the warps.
  __device__ __forceinline__ void write_eight(int j0, int buffer) const {
    for (int key = warp; key < 8; key += kWarps) {
      float2 sum{};
#pragma unroll
      for (int w = 0; w < kWarps; ++w) {
        const float2 v = *reinterpret_cast<const float2*>(
            ks + ((buffer * kWarps + w) * 8 + key) * 64 + lane * 2);
        sum = {sum.x + v.x, sum.y + v.y};
      }
      const int j = j0 + key;
      if (j < Lk) *reinterpret_cast<float2*>(dk_to + j * in.width) = sum;
    }
  }

  __device__ __forceinline__ void run() {
    int buffer = 0;
#pragma unroll 1
    for (int t = 0; t < steps; ++t) {
      copies_wait<0>();
      __syncthreads();
      copy(t + 1);
      const int j0 = keys.x + t * 32;
      const float2 y_most = __ldg(reinterpret_cast<const float2*>(
          in.y_most + (static_cast<size_t>(zk) * in.key_parts + j0 / kPart) * in.width + a0));
      const bool wide =
          __any_sync(kAll, !(x_most.x * y_most.x < 1e18f && x_most.y * y_most.y < 1e18f));
#pragma unroll 1
      for (int j8 = 0; j8 < 32; j8 += 8) {
#pragma unroll 1
        for (int j = j8; j < j8 + 8; j += 4) add_four(t, j, wide, buffer);
        __syncthreads();
        write_eight(j0 + j8, buffer);
        buffer ^= 1;
      }
    }
  }

  __device__ __forceinline__ void write_queries() const {
    const float scale = 4.0f * p.scale / p.temperature;
    const float2 u{a0 < p.D ? scale * p.u[a0] : 0.0f, a0 + 1 < p.D ? scale * p.u[a0 + 1] : 0.0f};
    const int H = static_cast<int>(p.H);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int r = i0 + warp * 16 + i;
      if (r >= to.c.rows) continue;
      if (to.whole_dq.data) {
        float* const at = row_of(to.whole_dq, z / H, z % H, to.c.row + r);
        if (a0 < p.D) at[a0 * to.whole_dq.c] = dq[i].x * u.x;
        if (a0 + 1 < p.D) at[(a0 + 1) * to.whole_dq.c] = dq[i].y * u.y;
        continue;
      }
      const size_t row = (static_cast<size_t>(range) * to.c.heads + head) * to.c.rows + r;
      *reinterpret_cast<float2*>(to.dq + row * in.width + a0) = dq[i];
    }
  }

  // Σ g·r over the warps.
  __device__ __forceinline__ void write_weights() const {
    copies_wait<0>();
    __syncthreads();
    *reinterpret_cast<float2*>(ks + warp * 64 + lane * 2) = gr;
    __syncthreads();
    if (tid >= 64) return;
    float sum = 0.0f;
    for (int w = 0; w < kWarps; ++w) sum += ks[w * 64 + tid];
    const size_t at = static_cast<size_t>(head) * gridDim.y + blockIdx.y;
    to.gr[at * in.width + blockIdx.x * 64 + tid] = sum;
  }
};

template <int kWarps>
__global__ __launch_bounds__(32 * kWarps,
                             1) void add_gradients(const __grid_constant__ AttentionProblem p,
                                                   const __grid_constant__ Prepared in,
                                                   const __grid_constant__ GradientCall to) {
  extern __shared__ float4 shared[];
  const auto run = [](auto& block) {
    block.copy(0);
    block.begin();
    block.run();
    block.write_queries();
    block.write_weights();
  };
  GradientBlock<kWarps, false> block(p, in, to, reinterpret_cast<float*>(shared));
  if (!block.some_apart()) return run(block);
  GradientBlock<kWarps, true> apart(p, in, to, reinterpret_cast<float*>(shared));
  run(apart);
}

}  // namespace fovea::cuda
