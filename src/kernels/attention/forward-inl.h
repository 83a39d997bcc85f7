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

// Of each row of a block so far: the maximum m and Σ e^{s−m} of the online softmax (or the
// threshold of a sparse weighting in m), and the best key of a hard weighting.
struct RowStates {
  HWY_ALIGN float m[kMaxBlockRows];
  HWY_ALIGN float l[kMaxBlockRows];
  float best[kMaxBlockRows];
  int32_t chosen[kMaxBlockRows];

  RowStates(int64_t n, bool hard) {
    std::fill(m, m + RoundUp(n, kLanes), -kInf);
    std::fill(l, l + RoundUp(n, kLanes), 0.0f);
    if (!hard) return;
    std::fill(best, best + n, -kInf);
    std::fill(chosen, chosen + n, -1);
  }
};

struct ForwardScratch {
  float *s, *queries, *spare, *context, *block_max;
  int64_t lds;

  static int64_t Floats(const AttentionProblem& p, Blocking by) {
    return kGroup * (by.keys + kLanes) + by.rows * (QueryFloats(p) + RoundUp(p.Dv, kLanes)) +
           2 * by.keys + RoundUp(p.D + 4, kLanes) + 4 * kLanes +
           RoundUp(by.rows * (p.Lk / by.keys + 1), kLanes);
  }
  ForwardScratch(const AttentionProblem& p, Blocking by, float* base) : lds(by.keys + kLanes) {
    s = base;
    queries = s + kGroup * lds;
    context = queries + by.rows * QueryFloats(p);
    spare = context + by.rows * RoundUp(p.Dv, kLanes);
    block_max = spare + 2 * by.keys + RoundUp(p.D + 4, kLanes) + 2 * kLanes;
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
    const RandomKey key = RowKey(p, Purpose::weight_dropout, b, h, i);
    weight *= bits32(key, static_cast<uint64_t>(j)) >= DropBelow(p) ? KeptFactor(p) : 0.0f;
  }
  return weight;
}

// Scores of `n` rows, all in the same columns, become e^{s−m}; decay[r] is what the sums so far
// must be multiplied by. Row by row within each step, so that the reductions of different rows
// overlap.
HWY_INLINE void AdvanceSoftmax(float* s, int64_t lds, int64_t columns, int64_t n, float* m,
                               float* l, float* decay) {
  float base[kGroup];
  for (int64_t r = 0; r < n; ++r) base[r] = RowMax(s + r * lds, columns);
  for (int64_t r = 0; r < n; ++r) {
    const float before = m[r], now = std::max(before, base[r]);
    base[r] = now == -kInf ? 0.0f : now;
    decay[r] = before == now ? 1.0f : before == -kInf ? 0.0f : std::exp(before - base[r]);
    m[r] = now;
  }
  for (int64_t r = 0; r < n; ++r) l[r] = l[r] * decay[r] + ExpRow(s + r * lds, columns, base[r]);
}

// The other weightings, one row at a time.
HWY_NOINLINE float AdvanceRow(const AttentionProblem& p, const Stretch& x, float* s, float* spare,
                              RowStates& state, int64_t i) {
  float* at = s + (x.from - x.origin);
  float decay = 1.0f;
  switch (p.weigh) {
    case Weigh::softmax:
      break;
    case Weigh::sample:
      std::copy(at, at + x.size(), spare + (x.from - x.origin));
      AddGumbel(p, x, spare);
      UpdateBest(spare, x, state.best[i], state.chosen[i]);
      AdvanceSoftmax(at, 0, x.size(), 1, state.m + i, state.l + i, &decay);
      break;
    case Weigh::gumbel:
      AddGumbel(p, x, s);
      UpdateBest(s, x, state.best[i], state.chosen[i]);
      AdvanceSoftmax(at, 0, x.size(), 1, state.m + i, state.l + i, &decay);
      break;
    case Weigh::argmax:
      UpdateBest(s, x, state.best[i], state.chosen[i]);
      break;
    case Weigh::sparsemax:
      state.m[i] = SparseThreshold(at, x.size(), 1.0f, false);
      WeighRow(p.weigh, at, x.size(), state.m[i]);
      break;
    case Weigh::entmax15:
      state.m[i] = SparseThreshold(at, x.size(), 0.5f, true);
      WeighRow(p.weigh, at, x.size(), state.m[i]);
      break;
    case Weigh::sigmoid:
    case Weigh::none:
      WeighRow(p.weigh, at, x.size(), 0.0f);
      break;
    case Weigh::formula:
      FormulaRow(p, x, s, spare);
      break;
  }
  return decay;
}

// context[m][Dv] (+)= w[m][keys]·v over the keys [j0, j1) that group g sees.
HWY_INLINE void SumValues(const BlockRanges& r, const KeySide& side, bool careful, int64_t g,
                          int64_t m, int64_t j0, int64_t j1, const float* s, int64_t lds,
                          float* context, int64_t Dv, bool& started) {
  const int64_t a = std::clamp<int64_t>(r.group_begin[g], j0, j1);
  const int64_t z = std::clamp<int64_t>(r.group_end[g], j0, j1);
  if (a >= z) return;
  auto* product = careful ? &MatMulSkippingZeros : &MatMul;
  product({s + (a - j0), lds, 1}, side.values.data + a * side.values.row, side.values.row, context,
          RoundUp(Dv, kLanes), m, Dv, z - a, started);
  started = true;
}

HWY_INLINE void KeepWeights(const ForwardCall& c, const Stretch& x, const float* s) {
  if (Hard(c.p.weigh)) return;
  float* to = c.out.weights.row(x.b, x.h, x.i);
  const int64_t end = std::min(x.to, c.p.Lk);
  if (x.from < end) std::copy(s + (x.from - x.origin), s + (end - x.origin), to + x.from);
}

// Unseen keys get 0; softmax weights were kept relative to the maximum of their time.
HWY_NOINLINE void FinishWeights(const ForwardCall& c, const BlockRanges& r, const ScoreBlock& at,
                                int64_t i, const RowStates& state, const float* block_max) {
  const AttentionProblem& p = c.p;
  float* w = c.out.weights.row(at.b, at.h, at.i + i);
  if (Hard(p.weigh)) {
    FillRow(w, 0, p.Lk, 0.0f);
    const int32_t j = state.chosen[i];
    if (j >= 0) w[j] = ChosenWeight(p, at.b, at.h, at.i + i, j);
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
    const bool none = state.l[i] == 0.0f || m == -kInf;
    const float factor = none ? 0.0f : std::exp(m - state.m[i]) / state.l[i];
    const int64_t first = std::max(from, j), end = std::min(to, j + c.by.keys);
    WriteRow(w + first, end - first, factor, w + first, 1);
  }
}

HWY_INLINE void FinishRow(const ForwardCall& c, const KeySide& side, const ScoreBlock& at,
                          int64_t i, const RowStates& state, const float* sum, bool started) {
  const AttentionProblem& p = c.p;
  const int64_t row = at.i + i;
  float* out = c.out.context.row(at.b, at.h, row);
  if (Hard(p.weigh)) {
    const int32_t j = state.chosen[i];
    c.out.chosen[(at.b * p.H + at.h) * p.Lq + row] = j;
    const float weight = j < 0 ? 0.0f : ChosenWeight(p, at.b, at.h, row, j);
    WriteRow(side.values.data + std::max(j, 0) * side.values.row, p.Dv, weight, out,
             c.out.context.c);
    return;
  }
  float factor = started ? 1.0f : 0.0f;
  if (p.weigh == Weigh::softmax && started) factor = state.l[i] == 0.0f ? 0.0f : 1.0f / state.l[i];
  WriteRow(sum, p.Dv, factor, out, c.out.context.c);
}

// stat ← m + log l, or m where that is a threshold. Positive l are normal: the largest term is 1.
HWY_INLINE void FinishStatistics(const AttentionProblem& p, RowStates& state, int64_t n,
                                 float* stat) {
  const F d;
  if (HasLogSumExp(p.weigh)) {
    for (int64_t i = 0; i < n; i += kLanes) {
      const Vec m = hn::Load(d, state.m + i), l = hn::Load(d, state.l + i);
      const Vec sum = hn::Add(m, hn::IfThenElse(hn::Eq(l, l), Log(l), l));
      hn::Store(hn::IfThenElse(hn::Eq(l, hn::Zero(d)), hn::Set(d, -kInf), sum), d, state.m + i);
    }
  }
  std::copy(state.m, state.m + n, stat);
}

// Masks and weighs the scores of group g, rows first … first+m, keys [j0, j1).
HWY_INLINE void WeighGroup(const ForwardCall& c, const ForwardScratch& mem, const BlockRanges& r,
                           const ScoreBlock& at, RowStates& state, int64_t g, int64_t m, int64_t j0,
                           int64_t j1, bool started) {
  const AttentionProblem& p = c.p;
  const int64_t first = g * kGroup, ldc = RoundUp(p.Dv, kLanes);
  const Stretch all = StretchOf(r, at, first, at.i + first, j0, j1);
  if (all.from >= all.to) return;
  float decay[kGroup];
  if (p.masked() || p.center || all.to > p.Lk) {
    for (int64_t i = 0; i < m; ++i) {
      const Stretch x = StretchOf(r, at, first + i, at.i + first + i, j0, j1);
      if (NeedsMask(p, x)) MaskRow(p, x, mem.s + i * mem.lds);
    }
  }
  if (p.weigh == Weigh::softmax) {
    AdvanceSoftmax(mem.s + (all.from - j0), mem.lds, all.size(), m, state.m + first,
                   state.l + first, decay);
  } else {
    for (int64_t i = 0; i < m; ++i) {
      const Stretch x = StretchOf(r, at, first + i, at.i + first + i, j0, j1);
      decay[i] = AdvanceRow(p, x, mem.s + i * mem.lds, mem.spare, state, first + i);
    }
  }
  for (int64_t i = 0; i < m && started; ++i) {
    if (decay[i] != 1.0f) ScaleRow(mem.context + (first + i) * ldc, ldc, decay[i]);
  }
  if (!HasFactor(p) && !c.out.weights) return;
  for (int64_t i = 0; i < m; ++i) {
    const Stretch x = StretchOf(r, at, first + i, at.i + first + i, j0, j1);
    float* s = mem.s + i * mem.lds;
    if (HasFactor(p) && !Hard(p.weigh)) FactorRow(p, x, s);
    if (!c.out.weights) continue;
    mem.block_max[(j0 / c.by.keys) * c.by.rows + first + i] = state.m[first + i];
    KeepWeights(c, x, s);
  }
}

HWY_NOINLINE void ForwardBlock(const ForwardCall& c, const KeySide& side, int64_t b, int64_t h,
                               int64_t i0, float* scratch) {
  const AttentionProblem& p = c.p;
  const ForwardScratch mem(p, c.by, scratch);
  const int64_t n = std::min(c.by.rows, p.Lq - i0), ldc = RoundUp(p.Dv, kLanes);
  const bool sums = !Hard(p.weigh), careful = p.masked() && !side.keys.finite;
  const ScoreBlock at{b, h, i0};
  BlockRanges r;
  FindRanges(p, b, h, nullptr, i0, n, r);
  const PackedQueries queries =
      PackQueries(p, side.keys.range, c.w, RowsOf(p.q, b, h, i0), n, mem.queries);
  RowStates state(n, !sums);
  bool started[kMaxBlockRows / kGroup] = {};

  for (int64_t j0 = RoundDown(r.first, c.by.keys); j0 < r.last; j0 += c.by.keys) {
    const int64_t j1 = std::min(j0 + c.by.keys, r.last);
    for (int64_t g = 0; g * kGroup < n; ++g) {
      const int64_t m = std::min(kGroup, n - g * kGroup);
      ScoreGroup(p, side.keys, queries, c.w, at, r, g, m, j0, j1, mem.s, mem.lds);
      WeighGroup(c, mem, r, at, state, g, m, j0, j1, started[g] && sums);
      if (!sums) continue;
      SumValues(r, side, careful, g, m, j0, j1, mem.s, mem.lds, mem.context + g * kGroup * ldc,
                p.Dv, started[g]);
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    if (c.out.weights) FinishWeights(c, r, at, i, state, mem.block_max);
    if (c.out.context) FinishRow(c, side, at, i, state, mem.context + i * ldc, started[i / kGroup]);
  }
  if (c.out.stat) FinishStatistics(p, state, n, c.out.stat + (b * p.H + h) * p.Lq + i0);
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
    // Neighbours together: what is read and written next lies beside what was.
    const int64_t run = std::clamp<int64_t>(pairs / (8 * threads()), 1, 16);
    parallel_for((pairs + run - 1) / run, [&](int64_t task) {
      float* mine = scratch.data() + thread_index() * (scratch_floats + side_floats);
      for (int64_t unit = task * run; unit < std::min(pairs, (task + 1) * run); ++unit) {
        const int64_t b = unit / p.Hk, hk = unit % p.Hk;
        const KeySide side = PrepareKeySide(p, b, hk, mine + scratch_floats);
        for (int64_t h = hk * p.group(); h < (hk + 1) * p.group(); ++h) {
          for (int64_t i = 0; i < blocks; ++i)
            ForwardBlock(call, side, b, h, i * call.by.rows, mine);
        }
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
