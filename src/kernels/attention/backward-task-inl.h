// What the parts of the backward pass hand to each other: the call, a unit's memory, a block.
#if defined(FOVEA_ATTENTION_BACKWARD_TASK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_ATTENTION_BACKWARD_TASK_INL_H_
#undef FOVEA_ATTENTION_BACKWARD_TASK_INL_H_
#else
#define FOVEA_ATTENTION_BACKWARD_TASK_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "kernels/attention/blocks-inl.h"
#include "kernels/attention/forward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

struct BackwardCall {
  const AttentionProblem& p;
  const AttentionGradients& g;
  const AdditiveWeights& w;
  Blocking by;
  bool scores;          // any gradient that flows through the scores
  bool values;          // weights multiply values smoothly, or are NaN: dv by a product
  bool undefined;       // some row has no weights
  bool find_mean;       // Σ p·dw must be summed over the row
  bool covers;          // dot products without a mask: the first of each sum need not add to zeros
  bool chosen_centers;  // one weight is left, and its bell alone moves with the centre
  const float* kept;    // the weights, where the forward pass kept them
  bool direct;          // products are written where dq, dk and dv belong
  bool few;             // queries: too few to pack the values for them
  int64_t chunk;        // queries in a chunk
  int64_t chunks;
  int64_t ld, ldv;  // padded widths
  // Products of bf16, by the matrix unit: backward-words-inl.h. It writes 16 rows at a time, so
  // that the rows of a chunk's dq, and of dk and dv, are filled up.
  bool words = false;
  int64_t chunk_rows = 0, key_rows = 0;
};

// Lays parts of memory out one after another.
struct Layout {
  float* at;
  float* take(int64_t n) {
    float* here = at;
    at += RoundUp(n, 16);
    return here;
  }
};

// Memory for the packed key side.
struct KeyScratch {
  float *k_panels, *v_panels, *k_rows;

  static int64_t ValuePanels(const BackwardCall& c) {
    if (!c.scores || c.few) return 0;
    if (c.words) return RoundUp(c.p.Lk, kPanelKeys) * UnitWords(c.p.Dv);
    return PanelFloats(c.p.Lk, c.p.Dv);
  }
  static int64_t KeyRows(const BackwardCall& c) {
    const AttentionProblem& p = c.p;
    if (!c.scores || p.family == Family::given) return 0;
    if (c.words) return ValueWordRows(p) * c.ld;
    const bool in_place = p.family == Family::dot && ReadableInPlace(KeysOf(p, 0, 0), p.D);
    return in_place ? 0 : p.Lk * c.ld;
  }
  // From `base` on; returns the number of floats.
  int64_t Lay(const BackwardCall& c, float* base) {
    Layout to{base};
    k_panels = to.take(c.kept ? 0 : KeyFloats(c.p));
    v_panels = to.take(ValuePanels(c));
    k_rows = to.take(KeyRows(c));
    return to.at - base;
  }
};

// A block's rows as words, filled up with zeros to what the matrix unit takes at a time.
struct WordScratch {
  DenseWords d_out;             // d_context by features 2d and 2d+1
  DenseWords d_pairs, q_pairs;  // d_context and q by rows 2i and 2i+1
  DenseWords rows,
      columns;  // of weights or their gradients: a group's, and a panel's turned around

  void Lay(const BackwardCall& c, int64_t lds, Layout& to) {
    const auto take = [&](int64_t n, int64_t ld) {
      return DenseWords{reinterpret_cast<uint32_t*>(to.take(n * ld)), ld};
    };
    d_out = take(c.by.rows, UnitWords(c.p.Dv));
    d_pairs = take(c.by.rows / 2, c.ldv);
    q_pairs = take(c.by.rows / 2, c.ld);
    rows = take(c.by.group, lds / 2);
    columns = take(kPanelKeys, c.by.rows / 2);
  }
};

// A unit's memory: its sums, one block's tiles.
struct BackwardScratch {
  float *dq, *dk, *dv;
  float *queries, *q_rows, *d_out, *s, *dw, *spare, *slopes;
  WordScratch words;
  int64_t lds;

  int64_t Lay(const BackwardCall& c, float* base, bool own_sums) {
    const AttentionProblem& p = c.p;
    Layout to{base};
    lds = c.by.keys + kLanes;
    const bool keys = c.scores && p.family != Family::given;
    dq = to.take((c.g.dq || keys) && !c.direct ? c.chunk_rows * p.group() * c.ld : 0);
    dk = to.take(own_sums && keys && !(c.direct && c.g.dk) ? c.key_rows * c.ld : 0);
    dv = to.take(own_sums && c.g.dv && !c.direct ? c.key_rows * c.ldv : 0);
    queries = to.take(c.by.rows * QueryFloats(p));
    q_rows = to.take(c.by.rows * c.ld);
    d_out = to.take(c.by.rows * c.ldv);
    s = to.take(c.by.rows * lds);
    dw = to.take(c.by.rows * lds);
    spare = to.take(4 * (c.by.keys + 2 * kLanes) + RoundUp(p.D + 4, kLanes));
    slopes = to.take(p.softcap > 0.0f ? lds : 0);
    if (c.words) words.Lay(c, lds, to);
    return to.at - base;
  }
};

// The query side of one block as vectors: q (or e^{2a}) and d_context, in place where possible.
struct BlockRows {
  Rows q, d_out;
};

// What a unit adds up besides dq.
struct UnitSums {
  DenseRows dk, dv;  // [Lk][ld], or columns of vectors for additive scores; [Lk][ldv]
  float* gr;         // [ld]
  double* total;     // Σ ds
  float* dbias;      // base to which bias strides apply, or null
};

struct UnitKeys {
  PackedKeys packed;
  Rows rows;  // k padded; additive: e^{2κ} in columns of vectors
  const float* v_panels = nullptr;
  // Instead, where words are multiplied: v in panels, k by rows 2j and 2j+1.
  const uint32_t *v_words = nullptr, *k_pairs = nullptr;
};

// What the blocks of one unit share.
struct BackwardUnit {
  const BackwardCall& c;
  const BackwardScratch& mem;
  const UnitKeys& keys;
  const UnitSums& sums;
};

// One block's work.
struct BackwardTask {
  const BackwardUnit& unit;
  Block block;
  BlockRows rows;
  bool careful;  // something is masked, and not all is finite
};

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_ATTENTION_BACKWARD_TASK_INL_H_
