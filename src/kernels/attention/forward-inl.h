// The fused forward pass: scores of a block, its weights, their sum over the values; online, so
// that memory stays linear in Lq + Lk.
#if defined(FOVEA_ATTENTION_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_ATTENTION_FORWARD_INL_H_
#undef FOVEA_ATTENTION_FORWARD_INL_H_
#else
#define FOVEA_ATTENTION_FORWARD_INL_H_
#endif

#include "kernels/attention/blocks-inl.h"
#include "kernels/attention/decode-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

// The online softmax of a row: Σ e^{s−m} and m so far; and of hard weightings the best so far.
struct RowState {
  float m = -kInf, l = 0.0f;
  float best = -kInf;
  int32_t chosen = -1;
};

struct ForwardScratch {
  float *s, *queries, *spare, *context, *block_max;
  int64_t lds;

  static int64_t Floats(const AttentionProblem& p, Blocking by) {
    return by.rows * (by.keys + kLanes + QueryFloats(p) + RoundUp(p.Dv, kLanes)) +
           2 * by.keys + RoundUp(p.D + 1, kLanes) + 4 * kLanes +
           RoundUp(by.rows * (p.Lk / by.keys + 1), kLanes);
  }
  ForwardScratch(const AttentionProblem& p, Blocking by, float* base) : lds(by.keys + kLanes) {
    s = base;
    queries = s + by.rows * lds;
    context = queries + by.rows * QueryFloats(p);
    spare = context + by.rows * RoundUp(p.Dv, kLanes);
    block_max = spare + 2 * by.keys + RoundUp(p.D + 1, kLanes) + 2 * kLanes;
  }
};

// Everything the blocks of one call share.
struct ForwardCall {
  const AttentionProblem& p;
  const AttentionResult& out;
  Blocking by;
  const AdditiveWeights& w;
};

struct KeySide {
  PackedKeys keys;
  Rows values;  // readable in place
};

// The weight of a chosen key: 1, times the predicted window's bell, times dropout.
inline float ChosenWeight(const AttentionProblem& p, int64_t b, int64_t h, int64_t i, int64_t j) {
  float weight = 1.0f;
  if (p.center && !p.renormalise) {
    const float away = static_cast<float>(j) - *p.center.row(b, h, i);
    weight = std::exp(-0.5f * away * away / (p.sigma * p.sigma));
  }
  if (p.dropout > 0.0f) {
    const RandomKey key = random_key(p.seed, Purpose::weight_dropout, b, h, i);
    weight *= bits32(key, static_cast<uint64_t>(j)) >= DropBelow(p) ? KeptFactor(p) : 0.0f;
  }
  return weight;
}

// Turns a stretch of scores into (unnormalised) weights; returns what the row's sum so far must be
// multiplied by.
HWY_INLINE float AdvanceSoftmax(const Stretch& x, float* s, RowState& row) {
  float* at = s + (x.from - x.origin);
  const float m = std::max(row.m, RowMax(at, x.size()));
  const float base = m == -kInf ? 0.0f : m;
  const float sum = ExpRow(at, x.size(), base);
  const float decay = row.m == m ? 1.0f : std::exp(row.m - base);
  row.l = row.l * decay + sum;
  row.m = m;
  return decay;
}

HWY_INLINE float AdvanceRow(const AttentionProblem& p, const Stretch& x, float* s, float* spare,
                            RowState& row) {
  float* at = s + (x.from - x.origin);
  switch (p.weigh) {
    case Weigh::softmax: return AdvanceSoftmax(x, s, row);
    case Weigh::sample:
      std::copy(at, at + x.size(), spare + (x.from - x.origin));
      AddGumbel(p, x, spare);
      UpdateBest(spare, x, row.best, row.chosen);
      return AdvanceSoftmax(x, s, row);
    case Weigh::gumbel:
      AddGumbel(p, x, s);
      UpdateBest(s, x, row.best, row.chosen);
      return AdvanceSoftmax(x, s, row);
    case Weigh::argmax: UpdateBest(s, x, row.best, row.chosen); return 1.0f;
    case Weigh::sparsemax:
      row.m = SparseThreshold(at, x.size(), 1.0f, false);
      WeighRow(p.weigh, at, x.size(), row.m);
      return 1.0f;
    case Weigh::entmax15:
      row.m = SparseThreshold(at, x.size(), 0.5f, true);
      WeighRow(p.weigh, at, x.size(), row.m);
      return 1.0f;
    case Weigh::sigmoid:
    case Weigh::none: WeighRow(p.weigh, at, x.size(), 0.0f); return 1.0f;
    case Weigh::formula: FormulaRow(p, x, s, spare); return 1.0f;
  }
  return 1.0f;
}

// context[n][ldc] (+)= w[n][keys]·v, group by group over the keys each group sees.
HWY_INLINE void SumValues(const BlockRanges& r, const KeySide& side, bool careful, int64_t n,
                          int64_t j0, int64_t j1, const float* s, int64_t lds, float* context,
                          int64_t ldc, int64_t Dv, bool* started) {
  for (int64_t g = 0; g * kGroup < n; ++g) {
    const int64_t a = std::clamp<int64_t>(r.group_begin[g], j0, j1);
    const int64_t z = std::clamp<int64_t>(r.group_end[g], j0, j1);
    if (a >= z) continue;
    const int64_t i = g * kGroup, m = std::min(kGroup, n - i);
    const Left weights{s + i * lds + (a - j0), lds, 1};
    const float* v = side.values.data + a * side.values.row;
    auto* product = careful ? &MatMulSkippingZeros : &MatMul;
    product(weights, v, side.values.row, context + i * ldc, ldc, m, Dv, z - a, started[g]);
    started[g] = true;
  }
}

HWY_INLINE void KeepWeights(const ForwardCall& c, const Stretch& x, const float* s) {
  if (Hard(c.p.weigh)) return;
  float* to = c.out.weights.row(x.b, x.h, x.i);
  const int64_t end = std::min(x.to, c.p.Lk);
  if (x.from < end) std::copy(s + (x.from - x.origin), s + (end - x.origin), to + x.from);
}

// Unseen keys get 0; softmax weights were kept relative to the maximum of their time.
HWY_NOINLINE void FinishWeights(const ForwardCall& c, const BlockRanges& r, int64_t b, int64_t h,
                                int64_t i0, int64_t i, const RowState& row, const float* block_max) {
  const AttentionProblem& p = c.p;
  float* w = c.out.weights.row(b, h, i0 + i);
  if (Hard(p.weigh)) {
    FillRow(w, 0, p.Lk, 0.0f);
    if (row.chosen >= 0) w[row.chosen] = ChosenWeight(p, b, h, i0 + i, row.chosen);
    return;
  }
  const int64_t g = i / kGroup;
  const int64_t from = RoundDown(r.group_begin[g], kLanes);
  const int64_t to = std::min(RoundUp(r.group_end[g], kLanes), p.Lk);
  FillRow(w, 0, from, 0.0f);
  FillRow(w, to, p.Lk, 0.0f);
  if (p.weigh != Weigh::softmax) return;
  for (int64_t j = RoundDown(from, c.by.keys); j < to; j += c.by.keys) {
    const float m = block_max[(j / c.by.keys) * c.by.rows + i];
    const float factor = row.l == 0.0f ? 0.0f : std::exp(m - row.m) / row.l;
    const int64_t end = std::min(to, j + c.by.keys);
    for (int64_t k = std::max(from, j); k < end; ++k) w[k] = m == -kInf ? 0.0f : w[k] * factor;
  }
}

HWY_INLINE void FinishRow(const ForwardCall& c, const KeySide& side, int64_t b, int64_t h, int64_t i,
                          const RowState& row, const float* sum, bool started) {
  const AttentionProblem& p = c.p;
  const int64_t at = (b * p.H + h) * p.Lq + i;
  float* out = c.out.context.row(b, h, i);
  if (Hard(p.weigh)) {
    c.out.chosen[at] = row.chosen;
    const float weight = row.chosen < 0 ? 0.0f : ChosenWeight(p, b, h, i, row.chosen);
    const float* v = side.values.data + std::max(row.chosen, 0) * side.values.row;
    for (int64_t d = 0; d < p.Dv; ++d) out[d * c.out.context.c] = weight == 0.0f ? 0.0f : weight * v[d];
  } else {
    float factor = started ? 1.0f : 0.0f;
    if (p.weigh == Weigh::softmax && started) factor = row.l == 0.0f ? 0.0f : 1.0f / row.l;
    for (int64_t d = 0; d < p.Dv; ++d) {
      out[d * c.out.context.c] = factor == 0.0f ? 0.0f : sum[d] * factor;
    }
  }
  if (!c.out.stat) return;
  if (HasLogSumExp(p.weigh)) {
    c.out.stat[at] = row.l == 0.0f ? -kInf : row.m + std::log(row.l);
  } else {
    c.out.stat[at] = row.m;
  }
}

HWY_NOINLINE void ForwardBlock(const ForwardCall& c, const KeySide& side, int64_t b, int64_t h,
                               int64_t i0, float* scratch) {
  const AttentionProblem& p = c.p;
  const ForwardScratch mem(p, c.by, scratch);
  const int64_t n = std::min(c.by.rows, p.Lq - i0), ldc = RoundUp(p.Dv, kLanes);
  BlockRanges r;
  FindRanges(p, b, h, nullptr, i0, n, r);
  const ScoreBlock at{b, h, i0};
  const PackedQueries queries =
      PackQueries(p, side.keys.range, c.w, RowsOf(p.q, b, h, i0), n, mem.queries, mem.spare);
  const bool sums = !Hard(p.weigh), careful = p.masked() && !side.keys.finite;
  std::array<RowState, kMaxBlockRows> state;
  bool started[kMaxBlockRows / kGroup] = {};

  for (int64_t j0 = RoundDown(r.first, c.by.keys); j0 < r.last; j0 += c.by.keys) {
    const int64_t j1 = std::min(j0 + c.by.keys, r.last);
    ScoreTile(p, side.keys, queries, c.w, at, r, n, j0, j1, mem.s, mem.lds);
    for (int64_t i = 0; i < n; ++i) {
      const Stretch x = StretchOf(r, at, i, i0 + i, j0, j1);
      if (x.from >= x.to) continue;
      float* s = mem.s + i * mem.lds;
      if (p.masked() || p.center || x.end < x.to) MaskRow(p, x, s);
      const float decay = AdvanceRow(p, x, s, mem.spare, state[i]);
      if (decay != 1.0f && sums && started[i / kGroup]) ScaleRow(mem.context + i * ldc, ldc, decay);
      if (HasFactor(p) && sums) FactorRow(p, x, s);
      if (c.out.weights) {
        mem.block_max[(j0 / c.by.keys) * c.by.rows + i] = state[i].m;
        KeepWeights(c, x, s);
      }
    }
    if (sums) {
      SumValues(r, side, careful, n, j0, j1, mem.s, mem.lds, mem.context, ldc, p.Dv, started);
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    if (c.out.weights) FinishWeights(c, r, b, h, i0, i, state[i], mem.block_max);
    FinishRow(c, side, b, h, i0 + i, state[i], mem.context + i * ldc, started[i / kGroup]);
  }
}

inline int64_t ValueFloats(const AttentionProblem& p) {
  return ReadableInPlace(RowsOf(p.v, 0, 0), p.Dv) ? 0 : p.Lk * RoundUp(p.Dv, kLanes);
}

HWY_NOINLINE KeySide PrepareKeySide(const AttentionProblem& p, int64_t b, int64_t hk, float* to) {
  KeySide side{PackKeys(p, b, hk, to), RowsOf(p.v, b, hk)};
  if (ValueFloats(p) > 0) {
    float* values = to + KeyFloats(p);
    PackRows(side.values, p.Lk, p.Dv, 1.0f, values, RoundUp(p.Dv, kLanes));
    side.values = {values, RoundUp(p.Dv, kLanes), 1};
  }
  return side;
}

void Forward(const AttentionProblem& p, const AttentionResult& out) {
  if (DecodeSuits(p, out)) return Decode(p, out);
  const AdditiveStore additive = PrepareAdditive(p);
  const ForwardCall call{p, out, BlockingFor(p, WholeRows(p.weigh), static_cast<bool>(out.weights)),
                         additive.weights};
  const int64_t blocks = (p.Lq + call.by.rows - 1) / call.by.rows;
  const int64_t pairs = p.B * p.Hk;
  const int64_t side_floats = KeyFloats(p) + ValueFloats(p);
  const int64_t scratch_floats = ForwardScratch::Floats(p, call.by);

  if (blocks * p.group() <= 2) {  // keys serve few blocks: pack them where they are used
    const Buffer<float> scratch(threads() * (scratch_floats + side_floats));
    parallel_for(pairs, [&](int64_t unit) {
      float* mine = scratch.data() + thread_index() * (scratch_floats + side_floats);
      const int64_t b = unit / p.Hk, hk = unit % p.Hk;
      const KeySide side = PrepareKeySide(p, b, hk, mine + scratch_floats);
      for (int64_t h = hk * p.group(); h < (hk + 1) * p.group(); ++h) {
        for (int64_t i = 0; i < blocks; ++i) ForwardBlock(call, side, b, h, i * call.by.rows, mine);
      }
    });
    return;
  }
  const Buffer<float> packed(pairs * side_floats);
  const Buffer<float> scratch(threads() * scratch_floats);
  std::vector<KeySide> sides(static_cast<size_t>(pairs));
  parallel_for(pairs, [&](int64_t unit) {
    sides[unit] = PrepareKeySide(p, unit / p.Hk, unit % p.Hk, packed.data() + unit * side_floats);
  });
  // The last blocks first: under a causal mask they have the most to do.
  parallel_for(blocks * p.B * p.H, [&](int64_t unit) {
    const int64_t bh = unit % (p.B * p.H), i = blocks - 1 - unit / (p.B * p.H);
    const int64_t b = bh / p.H, h = bh % p.H;
    ForwardBlock(call, sides[b * p.Hk + h / p.group()], b, h, i * call.by.rows,
                 scratch.data() + thread_index() * scratch_floats);
  });
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_ATTENTION_FORWARD_INL_H_
