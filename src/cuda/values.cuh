// The long path: the matrix products, on tensor cores.
//
//   context    C[i][d]  = Σ_j w_ij·v_jd
//   d_values   dv[j][d] = Σ_i w_ij·do_id
//   d_scores   dw[i][j] = Σ_d do_id·v_jd, and of that the gradient g of the scores, which takes
//              their place
//   d_queries  dq[i][d] = Σ_j g_ij·k_jd, and d_keys dk[j][d] = Σ_i g_ij·q_id, of dot products
//   weighted, d_weighted, d_weights  are context, d_values and dw where weights lie in memory
//              instead of scores
//
// float32 by three products of bfloat16 halves: high·high + high·low + low·high, sums in float32;
// the part left out is below 2⁻¹⁶ of a term. Weights are made of scores while those are loaded.
// What is not finite in v or d_context is 0 in their halves (a 0 weight would make it NaN) and is
// added afterwards to the rows whose weight for it is not 0.
//
// H200, B 8 L 1024 A 256: 58, 56 and 82 µs, the tensor units 30–40 % busy; the rest is waiting for
// scores. Loading those two steps ahead instead of one: 61 µs. Tiles of 128×64, 64×128 and 64×256,
// and 2 to 4 stages, were within 20 % of each other.
#pragma once

#include "cuda/scores.cuh"

namespace fovea::cuda {

enum class Product {
  context,
  d_values,
  d_scores,
  d_queries,
  d_keys,
  weighted,
  d_weighted,
  d_weights
};
constexpr bool has_weights(Product op) { return op == Product::context || op == Product::d_values; }
constexpr bool stores_weights(Product op) {
  return op == Product::weighted || op == Product::d_weighted;
}
constexpr bool sums_values(Product op) { return has_weights(op) || stores_weights(op); }
// Whether a row is summed over the keys it sees.
constexpr bool of_contexts(Product op) { return op == Product::context || op == Product::weighted; }
// Whether it multiplies d_context and values.
constexpr bool of_pairs(Product op) { return op == Product::d_scores || op == Product::d_weights; }
// Whether rows of the result are keys.
constexpr bool of_keys(Product op) {
  return op == Product::d_values || op == Product::d_keys || op == Product::d_weighted;
}

// Where a product goes: rows `r` apart, numbers `c` apart, heads `z` apart, or a view.
struct Destination {
  View<float> view;            // by (b, h); data null: parts
  float* partial = nullptr;    // [split][head][rows][columns]
  size_t split = 0, head = 0;  // strides of those
  int columns = 0;
  float factor = 1.0f;
  bool add = false;
};

struct ProductCall {
  Chunk c;
  Destination to;
  int splits = 1, depth = 0;  // parts of the sum, and how long each is
  Dropout dropout{};
  const uint8_t* w_bad = nullptr;  // weighted, d_weighted: [heads][padded], some have no halves
  // d_scores
  float* ds = nullptr;      // as c.e: ds before the cap's slope, where the bias' gradient needs it;
                            // d_weights: dw
  float* totals = nullptr;  // [block]: Σ of the gradients written
  const float* beta = nullptr;
};

// A tile in shared memory: 32 deep, as rows of 32 or as 32 rows.
template <bool kDeepRows, int kRows>
struct TileShape {
  static constexpr int kStep = kDeepRows ? 40 : kRows + 8;  // padded: no two rows in one bank
  static constexpr int kSize = kDeepRows ? kRows * 40 : 32 * (kRows + 8);
};

template <Product kOp, int kM, int kN>
struct ProductShape {
  static constexpr bool kFromScores = !of_pairs(kOp);
  static constexpr bool kADeep = !of_keys(kOp), kBDeep = of_pairs(kOp);
  using A = TileShape<kADeep, kM>;
  using B = TileShape<kBDeep, kN>;
  static constexpr int kAStages = kFromScores ? 2 : 3, kBStages = 3;
  static constexpr int kFirst = kFromScores ? 1 : 0;  // of the four products of halves
  static constexpr size_t kShared =
      2 * sizeof(bf16) * (kAStages * A::kSize + kBStages * B::kSize) + kM * sizeof(RowState);
};

// Rows of the chunk, [first, last), that may see keys j0 … j1: whole tiles.
__device__ inline int2 rows_seeing(const Prepared& in, const Chunk& c, int z, int j0, int j1) {
  int first = c.rows, last = 0;
  for (int t = threadIdx.x % kWarp; t * kTileRows < c.rows; t += kWarp) {
    const int4 seen = in.range[static_cast<size_t>(z) * in.query_tiles + c.row / kTileRows + t];
    if (seen.x < j1 && seen.y > j0)
      first = min(first, t * kTileRows), last = max(last, (t + 1) * kTileRows);
  }
  return {__reduce_min_sync(kAll, first), min(c.rows, __reduce_max_sync(kAll, last))};
}

// What a weight that is not 0 takes from what is not finite, added to C[m][n] of this thread.
template <Product kOp>
__device__ float hidden_part(const AttentionProblem& p, const AttentionGradients& g,
                             const ProductCall& x, const uint8_t* bad, int head, int m, int n,
                             int2 depth) {
  const int z = x.c.z + head, H = static_cast<int>(p.H), b = z / H, h = z % H;
  const int hk = h / (H / static_cast<int>(p.Hk));
  const RowState* const states = x.c.state + static_cast<size_t>(head) * x.c.padded;
  const uint8_t* const w_bad = x.w_bad + static_cast<size_t>(head) * x.c.padded;
  float sum = 0.0f;
  for (int k = depth.x; k < depth.y; ++k) {
    const int i = of_contexts(kOp) ? m : k, j = of_contexts(kOp) ? k : m;
    if (!bad[k] && !(stores_weights(kOp) && w_bad[i])) continue;
    const float e = x.c.e[x.c.at(head, i) + j];
    const float w = stores_weights(kOp)
                        ? e
                        : weight_of(e, states[i]) * factor_of(x.dropout, states[i].noise, j);
    const float value = of_contexts(kOp)
                            ? row_of(p.v, b, hk, j)[n * p.v.c]
                            : row_of(g.d_context, b, h, x.c.row + i)[n * g.d_context.c];
    if (w != 0.0f && !(finite(value) && has_halves(w))) sum += w * value;
  }
  return sum;
}

// dw becomes the gradient of the scores, and takes their place: g = p·(f·dw + beta), times the
// slope of the cap. A warp has 32×32 of them from (m, n) on.
__device__ __forceinline__ void write_score_gradients(const AttentionProblem& p,
                                                      const ProductCall& x,
                                                      const float (&dw)[2][4][4], int head,
                                                      int2 from) {
  __shared__ float sums[32];
  const Chunk& c = x.c;
  const int lane = threadIdx.x % kWarp, z = c.z + head, H = static_cast<int>(p.H);
  float2 e[2][2][4];  // all at once: behind a store the next load would wait
#pragma unroll
  for (int t = 0; t < 16; ++t) {
    const int m = min(from.x + t / 8 * 16 + lane / 4 + t / 4 % 2 * 8, c.rows - 1);
    const int n = from.y + lane % 4 * 2 + t % 4 * 8;
    e[t / 8][t / 4 % 2][t % 4] = *reinterpret_cast<const float2*>(c.e + c.at(head, m) + n);
  }
  float total = 0.0f;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int m = from.x + i * 16 + lane / 4 + half * 8;
      if (m >= c.rows) continue;
      const RowState state = c.state[static_cast<size_t>(head) * c.padded + m];
      const float beta = x.beta[static_cast<size_t>(z) * p.Lq + c.row + m];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int n = from.y + lane % 4 * 2 + j * 8;
        const float2 score = e[i][half][j];
        const auto gradient = [&](float of, float up, int key) {
          const float factor = factor_of(x.dropout, state.noise, key);
          return score_gradient(weight_of(of, state), factor, up, beta);
        };
        float2 ds{gradient(score.x, dw[i][j][half * 2], n),
                  gradient(score.y, dw[i][j][half * 2 + 1], n + 1)};
        if (x.ds) *reinterpret_cast<float2*>(x.ds + c.at(head, m) + n) = ds;
        if (p.softcap > 0.0f) {
          const RowAt row{z / H, z % H, c.row + m, {}};
          if (ds.x != 0.0f) ds.x *= cap_slope(p, row, n, score.x);
          if (ds.y != 0.0f) ds.y *= cap_slope(p, row, n + 1, score.y);
        }
        total += ds.x + ds.y;
        *reinterpret_cast<float2*>(c.e + c.at(head, m) + n) = ds;
      }
    }
  }
  total = warp_sum(total);
  if (lane == 0) sums[threadIdx.x / kWarp] = total;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < static_cast<int>(blockDim.x) / kWarp; ++w) total += sums[w];
  x.totals[(static_cast<size_t>(head) * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x] = total;
}

// The same as they are.
__device__ __forceinline__ void write_weight_gradients(const ProductCall& x,
                                                       const float (&dw)[2][4][4], int head,
                                                       int2 from) {
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int t = 0; t < 16; ++t) {
    const int m = from.x + t / 8 * 16 + lane / 4 + t / 4 % 2 * 8;
    const int n = from.y + lane % 4 * 2 + t % 4 * 8;
    if (m >= x.c.rows) continue;
    *reinterpret_cast<float2*>(x.ds + x.c.at(head, m) + n) = {dw[t / 8][t % 4][t / 4 % 2 * 2],
                                                              dw[t / 8][t % 4][t / 4 % 2 * 2 + 1]};
  }
}

// Where a warp's 32×32 of a product lie: the first of them, what the sum went over, and of which
// head.
struct ProductAt {
  int2 first, depth;
  int head, part;
  int tile, tile_rows;  // of the block
};

// Those of a context or dv into memory; and what was left out because it is not finite.
template <Product kOp>
__device__ __forceinline__ void write_product(const AttentionProblem& p,
                                              const AttentionGradients& g, const Prepared& in,
                                              const ProductCall& x, const float (&acc)[2][4][4],
                                              const ProductAt& at) {
  const Chunk& c = x.c;
  const int tid = threadIdx.x, lane = tid % kWarp, z = c.z + at.head, columns = x.to.columns;
  const int H = static_cast<int>(p.H), Lq = static_cast<int>(p.Lq), Lk = static_cast<int>(p.Lk);
  const int group = H / static_cast<int>(p.Hk), zk = z / H * static_cast<int>(p.Hk) + z % H / group;
  const int M = of_keys(kOp) ? Lk : c.rows, h = z % H;
  const Destination& to = x.to;
  float* const out =
      to.view.data ? row_of(to.view, z / H, of_keys(kOp) ? h / group : h, of_keys(kOp) ? 0 : c.row)
                   : to.partial + at.part * to.split + at.head * to.head;
  const int64_t r = to.view.data ? to.view.r : columns, step = to.view.data ? to.view.c : 1;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int m = at.first.x + i * 16 + lane / 4 + e / 2 * 8;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int n = at.first.y + lane % 4 * 2 + e % 2 + j * 8;
        if (m >= M || n >= columns) continue;
        float* const one = out + m * r + n * step;
        const float sum = acc[i][j][e] * to.factor;
        *one = to.add ? *one + sum : sum;
      }
    }
  }
  if (!sums_values(kOp)) return;
  const uint8_t* const bad = of_contexts(kOp) ? in.v_bad + static_cast<size_t>(zk) * Lk
                                              : in.d_bad + static_cast<size_t>(z) * Lq + c.row;
  const uint8_t* const w_bad = x.w_bad + static_cast<size_t>(at.head) * c.padded;
  bool any = false;
  for (int k = at.depth.x + tid; k < at.depth.y; k += static_cast<int>(blockDim.x))
    any = any || bad[k] || (kOp == Product::d_weighted && w_bad[k]);
  for (int m = at.tile + tid; kOp == Product::weighted && m < min(M, at.tile + at.tile_rows);
       m += static_cast<int>(blockDim.x))
    any = any || w_bad[m];
  if (!__syncthreads_or(any)) return;
#pragma unroll 1
  for (int t = 0; t < 32; ++t) {
    const int i = t / 16, e = t / 4 % 4, j = t % 4;
    const int m = at.first.x + i * 16 + lane / 4 + e / 2 * 8;
    const int n = at.first.y + lane % 4 * 2 + e % 2 + j * 8;
    if (m < M && n < columns)
      out[m * r + n * step] += hidden_part<kOp>(p, g, x, bad, at.head, m, n, at.depth);
  }
}

// One step of 32: a warp's 32×32 of C += A·B, at (x, y) of the block's. A and B lie in shared
// memory, high halves and then low ones.
template <class S>
__device__ __forceinline__ void add_step(const bf16* a_tile, const bf16* b_tile, int2 warp,
                                         float (&acc)[2][4][4]) {
  using SA = typename S::A;
  using SB = typename S::B;
  const int lane = threadIdx.x % kWarp, l8 = lane % 8, q1 = lane / 8 % 2, q2 = lane / 16;
  uint32_t a[2][2][2][4];  // [half of the depth][half][tile]
  uint32_t b[2][4];        // of a pair of tiles, one ahead
  const auto load_a = [&](int ks) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const bf16* const from = a_tile + half * SA::kSize;
        if (S::kADeep) {
          load_fragments(a[ks][half][i],
                         from + (warp.x + i * 16 + l8 + q1 * 8) * SA::kStep + ks * 16 + q2 * 8);
        } else {
          load_transposed(a[ks][half][i],
                          from + (ks * 16 + l8 + q2 * 8) * SA::kStep + warp.x + i * 16 + q1 * 8);
        }
      }
    }
  };
  const auto load_b = [&](uint32_t(&f)[2][4], int ks, int j) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const bf16* const from = b_tile + half * SB::kSize;
      if (S::kBDeep) {
        load_fragments(f[half],
                       from + (warp.y + j * 8 + l8 + q2 * 8) * SB::kStep + ks * 16 + q1 * 8);
      } else {
        load_transposed(f[half],
                        from + (ks * 16 + l8 + q1 * 8) * SB::kStep + warp.y + j * 8 + q2 * 8);
      }
    }
  };
  load_a(0);
  load_b(b, 0, 0);
  load_a(1);
#pragma unroll
  for (int st = 0; st < 4; ++st) {
    const int ks = st / 2, j = st % 2 * 2;
    uint32_t next[2][4];
    if (st < 3) load_b(next, (st + 1) / 2, (st + 1) % 2 * 2);
#pragma unroll
    for (int product = S::kFirst; product < 4; ++product) {  // low·low, low·high, high·low, …
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          multiply_add(acc[i][j + e], a[ks][product < 2][i], b[product % 2 == 0][e * 2],
                       b[product % 2 == 0][e * 2 + 1]);
        }
      }
    }
#pragma unroll
    for (int half = 0; half < 2 && st < 3; ++half) {
#pragma unroll
      for (int e = 0; e < 4; ++e) b[half][e] = next[half][e];
    }
  }
}

// Both halves of a matrix of rows, one behind the other.
struct Halves {
  const bf16* high;
  size_t low;
  int width;
};

// A tile of C, 32·WM × 32·WN, a warp 32×32, 32 deep at a time.
template <Product kOp, int WM, int WN>
struct ProductTile {
  static constexpr int kM = 32 * WM, kN = 32 * WN, kThreads = 32 * WM * WN;
  using S = ProductShape<kOp, kM, kN>;
  using SA = typename S::A;
  using SB = typename S::B;
  static constexpr int kLoads = kM * 8 / kThreads;  // of four scores, a thread and step
  static_assert(kLoads * kThreads == kM * 8 && kM * 4 % kThreads == 0 && kN * 4 % kThreads == 0);

  const ProductCall& x;
  bf16 *a_tiles, *b_tiles;
  RowState* states;  // of the tile's rows
  const RowState* rows;
  int tid, head, part, m0, n0, M, N, steps;
  int2 depth;
  Halves left, right;
  float4 scores[kLoads];
  RowState of_row[kLoads];  // where rows are keys: the row that each load belongs to

  __device__ __forceinline__ ProductTile(const AttentionProblem& p, const Prepared& in,
                                         const ProductCall& call, float4* shared)
      : x(call), tid(threadIdx.x) {
    a_tiles = reinterpret_cast<bf16*>(shared);
    b_tiles = a_tiles + S::kAStages * 2 * SA::kSize;
    states = reinterpret_cast<RowState*>(b_tiles + S::kBStages * 2 * SB::kSize);
    head = blockIdx.z / x.splits, part = blockIdx.z % x.splits;
    m0 = blockIdx.y * kM, n0 = blockIdx.x * kN;
    rows = x.c.state + static_cast<size_t>(head) * x.c.padded;
    choose_matrices(p, in);
    choose_depth(p, in);
  }

  __device__ __forceinline__ void choose_matrices(const AttentionProblem& p, const Prepared& in) {
    const int z = x.c.z + head, H = static_cast<int>(p.H), Hk = static_cast<int>(p.Hk);
    const size_t queries = static_cast<size_t>(p.B * H) * p.Lq, keys = p.B * Hk * p.Lk;
    const size_t query = static_cast<size_t>(z) * p.Lq + x.c.row;
    const size_t key = static_cast<size_t>(z / H * Hk + z % H / (H / Hk)) * p.Lk;
    const auto of = [](const bf16* from, size_t row, size_t all, int width) {
      return Halves{from + row * width, all * width, width};
    };
    if (of_pairs(kOp) || kOp == Product::d_values || kOp == Product::d_weighted) {
      left = of(in.d_out, query, queries, in.value_width);
    }
    right = kOp == Product::d_values || kOp == Product::d_weighted ? left
            : kOp == Product::d_queries ? of(in.k, key, keys, in.half_width)
            : kOp == Product::d_keys    ? of(in.q, query, queries, in.half_width)
                                        : of(in.v, key, keys, in.value_width);
  }

  // What of the depth can matter.
  __device__ __forceinline__ void choose_depth(const AttentionProblem& p, const Prepared& in) {
    const Chunk& c = x.c;
    const int Lk = static_cast<int>(p.Lk), z = c.z + head;
    M = of_keys(kOp) ? Lk : c.rows;
    N = of_pairs(kOp) ? Lk : right.width;
    const int K = of_pairs(kOp) ? right.width : of_keys(kOp) ? c.rows : Lk;
    depth = {part * x.depth, min(K, part * x.depth + x.depth)};
    if (of_keys(kOp)) {
      const int2 seeing = rows_seeing(in, c, z, m0, m0 + kM);
      depth = {max(depth.x, seeing.x), min(depth.y, seeing.y)};
    } else {
      const int2 seen = keys_seen(in, c, z, m0, kM);
      if (!of_pairs(kOp)) depth = {max(depth.x, seen.x / 32 * 32), min(depth.y, seen.y)};
      if (of_pairs(kOp) && (seen.x >= n0 + kN || seen.y <= n0)) depth.y = depth.x;
    }
    steps = max(0, parts(depth.y - depth.x, 32));
  }

  // Both halves of B of step t on their way, and of A where that is stored.
  __device__ __forceinline__ void copy(int t) {
    const int k0 = depth.x + t * 32;
#pragma unroll
    for (int half = 0; half < 2 && t < steps; ++half) {
      bf16* const b_to = b_tiles + ((t % S::kBStages) * 2 + half) * SB::kSize;
#pragma unroll
      for (int s = 0; s < kN * 4 / kThreads; ++s) {
        const int q = tid + s * kThreads;
        const int r = S::kBDeep ? q / 4 : q / (kN / 8),
                  o = S::kBDeep ? q % 4 * 8 : q % (kN / 8) * 8;
        const int n = n0 + (S::kBDeep ? r : o), k = k0 + (S::kBDeep ? o : r);
        const bool there = n < N && k < depth.y;
        const size_t from = S::kBDeep ? static_cast<size_t>(n) * right.width + k
                                      : static_cast<size_t>(k) * right.width + n;
        copy16(b_to + r * SB::kStep + o, right.high + half * right.low + (there ? from : 0), there);
      }
      if (S::kFromScores) continue;
      bf16* const a_to = a_tiles + ((t % S::kAStages) * 2 + half) * SA::kSize;
#pragma unroll
      for (int s = 0; s < kM * 4 / kThreads; ++s) {
        const int q = tid + s * kThreads, r = q / 4, o = q % 4 * 8;
        const bool there = m0 + r < M && k0 + o < depth.y;
        const size_t from = static_cast<size_t>(m0 + r) * left.width + k0 + o;
        copy16(a_to + r * SA::kStep + o, left.high + half * left.low + (there ? from : 0), there);
      }
    }
    copies_commit();
  }

  // (row of the tile, depth) of this thread's four scores.
  __device__ __forceinline__ int2 place(int s) const {
    const int q = tid + s * kThreads;
    return S::kADeep ? make_int2(q / 8, q % 8 * 4) : make_int2(q % (kM / 4) * 4, q / (kM / 4));
  }

  __device__ __forceinline__ void load(int t) {
    const int k0 = depth.x + t * 32;
    const float none = has_weights(kOp) ? -infinity() : 0.0f;
#pragma unroll
    for (int s = 0; s < kLoads; ++s) {
      const int2 at = place(s);
      const int m = m0 + at.x, k = k0 + at.y;
      const bool there = m < M && k < depth.y;
      const size_t from = S::kADeep ? x.c.at(head, m) + k : x.c.at(head, k) + m;
      scores[s] =
          there ? *reinterpret_cast<const float4*>(x.c.e + from) : float4{none, none, none, none};
      if (has_weights(kOp) && !S::kADeep && there) of_row[s] = rows[k];
    }
  }

  // What was loaded, as weights where it is scores, into shared memory, in halves.
  __device__ __forceinline__ void weigh(int t) {
    const int k0 = depth.x + t * 32;
    bf16* const to = a_tiles + (t % 2) * 2 * SA::kSize;
#pragma unroll
    for (int s = 0; s < kLoads; ++s) {
      const int2 at = place(s);
      float w[4] = {scores[s].x, scores[s].y, scores[s].z, scores[s].w};
      if (stores_weights(kOp)) {
#pragma unroll
        for (int e = 0; e < 4; ++e) w[e] = has_halves(w[e]) ? w[e] : 0.0f;
      }
      if (has_weights(kOp)) {
        const RowState state = S::kADeep ? states[at.x] : of_row[s];
        const int j = S::kADeep ? k0 + at.y : m0 + at.x;
#pragma unroll
        for (int e = 0; e < 4; ++e) w[e] = weight_of(w[e], state);
        if (x.dropout.below != 0) {
#pragma unroll
          for (int e = 0; e < 4; ++e) w[e] *= factor_of(x.dropout, state.noise, j + e);
        }
      }
      uint2 high, low;
      split(w[0], w[1], high.x, low.x);
      split(w[2], w[3], high.y, low.y);
      const int o = S::kADeep ? at.x * SA::kStep + at.y : at.y * SA::kStep + at.x;
      *reinterpret_cast<uint2*>(to + o) = high;
      *reinterpret_cast<uint2*>(to + SA::kSize + o) = low;
    }
  }

  // The warp's part, at (x, y) of the tile.
  __device__ __forceinline__ void run(int2 warp, float (&acc)[2][4][4]) {
#pragma unroll
    for (int t = 0; t < S::kBStages - 1; ++t) copy(t);
    if (kOp == Product::context) {
      for (int r = tid; r < kM; r += kThreads) {
        if (m0 + r < M) states[r] = rows[m0 + r];
      }
      __syncthreads();
    }
    if (S::kFromScores && steps > 0) {
      load(0);
      weigh(0);
    }
    for (int t = 0; t < steps; ++t) {
      copies_wait<S::kBStages - 2>();
      __syncthreads();
      copy(t + S::kBStages - 1);
      if (S::kFromScores && t + 1 < steps) load(t + 1);
      add_step<S>(a_tiles + (t % S::kAStages) * 2 * SA::kSize,
                  b_tiles + (t % S::kBStages) * 2 * SB::kSize, warp, acc);
      if (S::kFromScores && t + 1 < steps) weigh(t + 1);
    }
  }
};

template <Product kOp, int WM, int WN>
__global__ __launch_bounds__(32 * WM * WN,
                             2) void multiply(const __grid_constant__ AttentionProblem p,
                                              const __grid_constant__ AttentionGradients g,
                                              const __grid_constant__ Prepared in,
                                              const __grid_constant__ ProductCall x) {
  extern __shared__ float4 shared[];
  ProductTile<kOp, WM, WN> tile(p, in, x, shared);
  const int warp = threadIdx.x / kWarp, wm = warp / WN * 32, wn = warp % WN * 32;
  float acc[2][4][4] = {};
  tile.run({wm, wn}, acc);
  const int2 first{tile.m0 + wm, tile.n0 + wn};
  if constexpr (kOp == Product::d_scores) {
    write_score_gradients(p, x, acc, tile.head, first);
  } else if constexpr (kOp == Product::d_weights) {
    write_weight_gradients(x, acc, tile.head, first);
  } else {
    write_product<kOp>(p, g, in, x, acc,
                       {first, tile.depth, tile.head, tile.part, tile.m0, 32 * WM});
  }
}

}  // namespace fovea::cuda
