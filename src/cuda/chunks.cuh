// Scores of some rows at a time: what the long path and the one for all weightings share.
#pragma once

#include <algorithm>

#include "cuda/attention.h"
#include "cuda/prepare.cuh"

namespace fovea::cuda {

constexpr int kStrip = 64;  // keys of one pair (maximum, sum)

// Some rows of some heads, whose scores are in memory: as many as fit a bound.
struct Chunk {
  int z, heads;     // of B·H: z … z + heads
  int row, rows;    // of Lq
  int padded;       // rows that e has room for
  int padded_keys;  // columns of e
  float* e;         // [heads][padded][padded_keys], in Prepared::unit
  float2* strips;   // [heads][padded][padded_keys / 64]
  RowState* state;  // [heads][padded]
  uint8_t* kinds;   // [tile]: how many terms share a reciprocal; kApart: from q + k
  __host__ __device__ size_t at(int head, int i) const {
    return (static_cast<size_t>(head) * padded + i) * padded_keys;
  }
};

constexpr int64_t kScoresAtOnce = int64_t{16} << 20;

// What a pass prepares besides queries, keys and values.
struct Passing {
  bool backward = false;   // gradients of scores
  bool d_context = false;  // the gradient of the context
  float unit = kLog2e;     // of scores
};

// Everything a pass keeps besides the scores.
class Preparation {
 public:
  Preparation(const AttentionProblem& p, const Passing& pass) {
    const size_t queries = p.B * p.H * p.Lq, keys = p.B * p.Hk * p.Lk;
    const bool dot = p.family != Family::additive;  // given ones need neither
    to.unit = pass.unit;
    to.width = round_up(static_cast<int>(p.D), 64);
    to.value_width = round_up(static_cast<int>(p.Dv), 8);
    to.half_width = round_up(static_cast<int>(p.D), 8);
    to.query_tiles = parts(static_cast<int>(p.Lq), kTileRows);
    to.query_parts = parts(static_cast<int>(p.Lq), kPart);
    to.key_parts = parts(static_cast<int>(p.Lk), kPart);
    take(x_, to.x, queries * to.width);
    take(y_, to.y, keys * to.width);
    take(x_most_, to.x_most, dot ? 0 : p.B * p.H * to.query_parts * to.width);
    take(y_most_, to.y_most, dot ? 0 : p.B * p.Hk * to.key_parts * to.width);
    take(rows_, to.x_nan, queries);
    take(keys_, to.y_nan, keys);
    take(q_extent_, to.q_extent, dot ? 0 : p.B * p.H * to.query_parts);
    take(k_extent_, to.k_extent, dot ? 0 : p.B * p.Hk * to.key_parts);
    take(range_, to.range, p.B * p.H * to.query_tiles);
    take(constant_, to.constant, to.width + 3);
    to.line = to.constant + to.width;
    take(v_, to.v, 2 * keys * to.value_width);
    take(v_bad_, to.v_bad, keys);
    if (pass.d_context) {
      take(d_out_, to.d_out, 2 * queries * to.value_width);
      take(d_bad_, to.d_bad, queries);
      take(beta_, to.beta, queries);
    }
    if (!pass.backward || !dot) return;
    take(q_, to.q, 2 * queries * to.half_width);
    take(k_, to.k, 2 * keys * to.half_width);
  }

  void run(const AttentionProblem&, const AttentionGradients&) const;

  Prepared to{};

 private:
  template <class T>
  static void take(Scratch<T>& owner, T*& at, size_t n) {
    owner = Scratch<T>(n);
    at = owner.data();
  }
  Scratch<float> x_, y_, x_most_, y_most_, rows_, keys_, constant_, beta_;
  Scratch<Extent> q_extent_, k_extent_;
  Scratch<int4> range_;
  Scratch<bf16> v_, d_out_, q_, k_;
  Scratch<uint8_t> v_bad_, d_bad_;
};

// How many heads and rows have their scores in memory at a time.
struct ChunkSize {
  int heads, rows, padded, padded_keys;

  explicit ChunkSize(const AttentionProblem& p) {
    padded_keys = round_up(static_cast<int>(p.Lk), kTileKeys);
    const int64_t all_rows = round_up(static_cast<int>(p.Lq), 256);
    const int64_t fit = kScoresAtOnce / (all_rows * padded_keys), group = p.group();
    // Whole batch elements, or some groups of heads of one.
    const int64_t unit = fit >= p.H ? p.H : group;
    heads = static_cast<int>(std::clamp(fit / unit * unit, unit, std::max(unit, p.B * p.H)));
    if (fit < p.H) heads = static_cast<int>(std::min<int64_t>(heads, p.H));
    const int64_t of_rows = kScoresAtOnce / (int64_t{heads} * padded_keys) / 256 * 256;
    padded = static_cast<int>(std::clamp<int64_t>(of_rows, 256, all_rows));
    rows = static_cast<int>(std::min<int64_t>(padded, p.Lq));
  }
};

// Calls run(chunk, first): all rows of some heads after one another, `first` for their first.
template <class Function>
void for_chunks(const AttentionProblem& p, const ChunkSize& size, const Function& run) {
  const size_t rows = static_cast<size_t>(size.heads) * size.padded;
  const Scratch<float> e(rows * size.padded_keys);
  const Scratch<float2> strips(rows * (size.padded_keys / kStrip));
  const Scratch<RowState> state(rows);
  const Scratch<uint8_t> kinds(static_cast<size_t>(size.heads) * (size.padded / kTileRows) *
                               (size.padded_keys / kTileKeys));
  const int all = static_cast<int>(p.B * p.H), H = static_cast<int>(p.H);
  for (int z = 0; z < all;) {
    const int left = size.heads < H ? H - z % H : all - z, heads = std::min(size.heads, left);
    for (int row = 0; row < p.Lq; row += size.padded) {
      const int n = std::min(size.padded, static_cast<int>(p.Lq) - row);
      run(Chunk{z, heads, row, n, size.padded, size.padded_keys, e.data(), strips.data(),
                state.data(), kinds.data()});
    }
    z += heads;
  }
}

// The kernels of the long path (long.cu), for rows that are weighed otherwise.
void score(const AttentionProblem&, const Prepared&, const Chunk&);
// c.e holds weights, of which w_bad [heads][padded] says where some have no halves: the context.
void sum_values(const AttentionProblem&, const Prepared&, const Chunk&, const uint8_t* w_bad,
                const View<float>& context);
// The same weights, and d_context: dv.
void sum_value_gradients(const AttentionProblem&, const AttentionGradients&, const Prepared&,
                         const Chunk&, const uint8_t* w_bad);
// dw = d_context·vᵀ, laid out as c.e; what is not finite counts as 0.
void weight_gradients(const AttentionProblem&, const Prepared&, const Chunk&, float* dw);
// c.e holds the gradients of scores: dq, dk and du. `totals` are their sums, n numbers.
struct Totals {
  const float* data;
  int n;
};
void sum_score_gradients(const AttentionProblem&, const AttentionGradients&, const Prepared&,
                         const Chunk&, const Totals&);

}  // namespace fovea::cuda
