// The fused forward pass: scores of a block, its weights, their sum over the values; online, so
// that memory stays linear in Lq + Lk.
#if defined(FOVEA_ATTENTION_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_ATTENTION_FORWARD_INL_H_
#undef FOVEA_ATTENTION_FORWARD_INL_H_
#else
#define FOVEA_ATTENTION_FORWARD_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>

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
  bool started[kMaxGroups] = {};  // whether the group's sum over values has begun

  // A sink is the first of the scores.
  RowStates(int64_t n, bool hard, float sink) {
    std::fill(m, m + RoundUp(n, kLanes), sink);
    std::fill(l, l + RoundUp(n, kLanes), sink == -kInf ? 0.0f : sink < kInf ? 1.0f : kNan);
    if (!hard) return;
    std::fill(best, best + n, -kInf);
    std::fill(chosen, chosen + n, -1);
  }
  // Of a hard weighting: nothing is chosen where there was no largest.
  void FinishChoices(int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      if (std::isnan(best[i])) chosen[i] = -1, m[i] = kNan;
    }
  }
};

struct ForwardScratch {
  float *s, *queries, *spare, *context, *block_max;
  uint32_t* words;  // the weights of a group, where words are multiplied: [group][lds/2]
  int64_t lds;

  static int64_t Floats(const AttentionProblem& p, Blocking by) {
    return by.group * (by.keys + kLanes) + by.rows * (QueryFloats(p) + RoundUp(p.Dv, kLanes)) +
           2 * by.keys + RoundUp(p.D + 4, kLanes) + 4 * kLanes +
           RoundUp(by.rows * (p.Lk / by.keys + 1), kLanes) + WordFloats(p, by);
  }
  static int64_t WordFloats(const AttentionProblem& p, Blocking by) {
    return MultipliesWords(p) && ValuesInPairs(p) ? by.group * (by.keys + kLanes) / 2 : 0;
  }
  ForwardScratch(const AttentionProblem& p, Blocking by, float* base) : lds(by.keys + kLanes) {
    s = base;
    queries = s + by.group * lds;
    context = queries + by.rows * QueryFloats(p);
    spare = context + by.rows * RoundUp(p.Dv, kLanes);
    block_max = spare + 2 * by.keys + RoundUp(p.D + 4, kLanes) + 2 * kLanes;
    float* end = block_max + RoundUp(by.rows * (p.Lk / by.keys + 1), kLanes) + 2 * kLanes;
    words = WordFloats(p, by) > 0 ? reinterpret_cast<uint32_t*>(end) : nullptr;
  }
};

// Everything the blocks of one call share.
struct ForwardCall {
  const AttentionProblem& p;
  const AttentionResult& out;
  Blocking by;
  const AdditiveWeights& w;
  bool once =
      false;  // softmax over all keys at once: weights are divided by their sum before the values
  bool direct = false;  // and their product with the values is the context where it belongs
};

struct KeySide {
  PackedKeys keys;
  Rows values;                      // readable in place
  bool careful;                     // some weights may be 0, and not all is finite
  const uint32_t* pairs = nullptr;  // of bf16, instead: [Lk/2][Dv rounded up] words
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
    const auto at = static_cast<uint64_t>(p.first.j + j);
    weight *= bits32(key, at) >= DropBelow(p) ? KeptFactor(p) : 0.0f;
  }
  return weight;
}

struct OnlineSums {
  float *m, *l;
};

// Scores of `n` rows, all in the same columns, become e^{s−m}; decay[r] is what the sums so far
// must be multiplied by. Row by row within each step, so that the reductions of different rows
// overlap.
HWY_INLINE void AdvanceSoftmax(DenseRows s, int64_t columns, int64_t n, OnlineSums sums,
                               float* decay) {
  float *m = sums.m, *l = sums.l;
  float base[kMaxBlockRows];
  for (int64_t r = 0; r < n; ++r) base[r] = RowMax(s.data + r * s.ld, columns);
  for (int64_t r = 0; r < n; ++r) {
    const float before = m[r], now = std::max(before, base[r]);
    base[r] = now == -kInf ? 0.0f : now;
    decay[r] = before == now ? 1.0f : before == -kInf ? 0.0f : std::exp(before - base[r]);
    m[r] = now;
  }
  for (int64_t r = 0; r < n; ++r) {
    l[r] = l[r] * decay[r] + ExpRow(s.data + r * s.ld, columns, base[r]);
  }
}

// Softmax of R rows of `keys` scores in NV vectors: they stay in registers, and the rows'
// reductions overlap.
template <int NV, int R>
HWY_INLINE void SoftmaxRows(DenseRows s, int64_t keys, OnlineSums sums) {
  const F d;
  const auto seen = hn::FirstN(d, static_cast<size_t>(keys - (NV - 1) * kLanes));
  Vec v[R][NV], most[R];
  HWY_UNROLL(4)
  for (int r = 0; r < R; ++r) {
    HWY_UNROLL(4)
    for (int j = 0; j < NV; ++j) v[r][j] = hn::LoadU(d, s.data + r * s.ld + j * kLanes);
    v[r][NV - 1] = hn::IfThenElse(seen, v[r][NV - 1], hn::Set(d, -kInf));
    most[r] = v[r][0];
    HWY_UNROLL(4)
    for (int j = 1; j < NV; ++j) most[r] = hn::Max(most[r], v[r][j]);
  }
  HWY_UNROLL(4)
  for (int r = 0; r < R; ++r) {
    sums.m[r] = MaxOf(most[r]);
    most[r] = hn::Set(d, sums.m[r] == -kInf ? 0.0f : sums.m[r]);
  }
  Vec sum[R];
  HWY_UNROLL(4)
  for (int r = 0; r < R; ++r) {
    sum[r] = hn::Zero(d);
    HWY_UNROLL(4)
    for (int j = 0; j < NV; ++j) {
      v[r][j] = FastExpTo88(F(), hn::Sub(v[r][j], most[r]));
      sum[r] = hn::Add(sum[r], v[r][j]);
    }
  }
  HWY_UNROLL(4)
  for (int r = 0; r < R; ++r) {
    sums.l[r] = SumOf(sum[r]);
    const Vec inverse = hn::Set(d, sums.l[r] == 0.0f ? 0.0f : 1.0f / sums.l[r]);
    HWY_UNROLL(4)
    for (int j = 0; j < NV; ++j) {
      hn::StoreU(hn::Mul(v[r][j], inverse), d, s.data + r * s.ld + j * kLanes);
    }
  }
}

template <int NV>
HWY_NOINLINE void Softmax(DenseRows s, int64_t keys, int64_t n, OnlineSums sums) {
  constexpr int kRows = NV <= 2 && kManyRegisters ? 4 : 2;
  int64_t r = 0;
  for (; r + kRows <= n; r += kRows) {
    SoftmaxRows<NV, kRows>({s.data + r * s.ld, s.ld}, keys, {sums.m + r, sums.l + r});
  }
  for (; r < n; ++r) {
    SoftmaxRows<NV, 1>({s.data + r * s.ld, s.ld}, keys, {sums.m + r, sums.l + r});
  }
}

// The other weightings, one row at a time: row i of the block.
HWY_NOINLINE float AdvanceRow(const AttentionProblem& p, const Stretch& x, RowScores row,
                              RowStates& state, int64_t i) {
  float *s = row.s, *spare = row.spare;
  float* at = s + (x.from - x.origin);
  float decay = 1.0f;
  switch (p.weigh) {
    case Weigh::softmax:
      break;
    case Weigh::sample:
      std::copy(at, at + x.size(), spare + (x.from - x.origin));
      AddGumbel(p, x, spare);
      UpdateBest(spare, x, state.best[i], state.chosen[i]);
      AdvanceSoftmax({at, 0}, x.size(), 1, {state.m + i, state.l + i}, &decay);
      break;
    case Weigh::gumbel:
      AddGumbel(p, x, s);
      UpdateBest(s, x, state.best[i], state.chosen[i]);
      AdvanceSoftmax({at, 0}, x.size(), 1, {state.m + i, state.l + i}, &decay);
      break;
    case Weigh::argmax:
      UpdateBest(s, x, state.best[i], state.chosen[i]);
      break;
    case Weigh::sparsemax:
    case Weigh::entmax15:
      state.m[i] = SparseThresholdOf(p.weigh, at, x.size());
      WeighRow(p, at, x.size(), state.m[i]);
      break;
    case Weigh::sigmoid:
    case Weigh::none:
      WeighRow(p, at, x.size(), 0.0f);
      break;
    case Weigh::formula:
      state.m[i] = FormulaRow(p, x, s, spare);
      break;
  }
  return decay;
}

// One block's work.
struct ForwardTask {
  const ForwardCall& c;
  const KeySide& side;
  const ForwardScratch& mem;
  RowStates& state;
};

// The same with values in pairs: keys from an even one on, to an even number of them. Where that
// adds a key at either end, its weight is 0.
HWY_INLINE void SumPairs(const ForwardTask& t, const Block& x, RowsPart rows, PanelPart keys,
                         DenseRows context, bool accumulate) {
  const int64_t ld = RoundUp(t.c.p.Dv, kLanes), first = RoundDown(keys.j, 2);
  const int64_t n = RoundUp(keys.j + keys.n, 2) - first;
  const float* s = t.mem.s + (first - x.j0);
  const auto product = [&](auto by, const auto* left, int64_t row, int64_t apart) HWY_ATTR {
    return ProductBy<decltype(by)>{.a = {left, row, apart},
                                   .b = t.side.pairs + first / 2 * ld,
                                   .ldb = ld,
                                   .c = context.data,
                                   .ldc = context.ld,
                                   .m = rows.m,
                                   .n = t.c.p.Dv,
                                   .K = n / 2,
                                   .factor = 1.0f,
                                   .accumulate = accumulate};
  };
  const auto floats = [&]() HWY_ATTR { return product(ByPairs(), s, t.mem.lds, 2); };
  if (t.side.careful) return PairsSkippingZeros(floats());
  if (!t.mem.words) return MatMulOnce(floats());
  const DenseWords words{t.mem.words, t.mem.lds / 2};
  WordsOfRows({const_cast<float*>(s), t.mem.lds}, rows.m, n, RoundUp(n / 2, unit::kSide), words);
  const auto by_words = product(ByHalfWords(), words.data, words.ld, 1);
  if (t.c.p.matrix_unit) return MatMulByUnit(by_words);
  MatMulOnce(by_words);
}

// context[m][Dv] (+)= w[m][keys]·v over the keys that group g sees.
HWY_INLINE void SumValues(const ForwardTask& t, const Block& x, int64_t g) {
  const int64_t a = std::clamp<int64_t>(x.r.group_begin[g], x.j0, x.j1);
  const int64_t z = std::clamp<int64_t>(x.r.group_end[g], x.j0, x.j1);
  if (a >= z) return;
  const RowsPart rows = x.group(g);
  const int64_t Dv = t.c.p.Dv, ldc = t.c.direct ? t.c.out.context.r : RoundUp(Dv, kLanes);
  float* const context = t.c.direct ? t.c.out.context.row(x.at.b, x.at.h, x.at.i) : t.mem.context;
  if (t.side.pairs) {
    SumPairs(t, x, rows, {a, z - a}, {context + rows.first * ldc, ldc}, t.state.started[g]);
    t.state.started[g] = true;
    return;
  }
  const Rows& values = t.side.values;
  MatMul({.a = {t.mem.s + (a - x.j0), t.mem.lds, 1},
          .b = values.data + a * values.row,
          .ldb = values.row,
          .c = context + rows.first * ldc,
          .ldc = ldc,
          .m = rows.m,
          .n = Dv,
          .K = z - a,
          .accumulate = t.state.started[g]},
         t.side.careful);
  t.state.started[g] = true;
}

// For the backward pass.
HWY_INLINE void KeepRow(const ForwardCall& c, const Stretch& x, const float* s) {
  const int64_t width = kept_width(c.p.Lk);
  float* to = c.out.kept + ((x.b * c.p.H + x.h) * c.p.Lq + x.i) * width;
  FillRow(to, 0, x.from, 0.0f);
  std::copy(s + (x.from - x.origin), s + (x.to - x.origin), to + x.from);
  FillRow(to, x.to, width, 0.0f);
}

HWY_INLINE void KeepWeights(const ForwardCall& c, const Stretch& x, const float* s) {
  if (Hard(c.p.weigh)) return;
  float* to = c.out.weights.row(x.b, x.h, x.i);
  const int64_t end = std::min(x.to, c.p.Lk);
  if (x.from < end) std::copy(s + (x.from - x.origin), s + (end - x.origin), to + x.from);
}

// Unseen keys get 0; softmax weights were kept relative to the maximum of their time.
HWY_NOINLINE void FinishWeights(const ForwardTask& t, const BlockRanges& r, const BlockAt& at,
                                int64_t i) {
  const ForwardCall& c = t.c;
  const AttentionProblem& p = c.p;
  const RowStates& state = t.state;
  float* w = c.out.weights.row(at.b, at.h, at.i + i);
  if (Hard(p.weigh)) {
    FillRow(w, 0, p.Lk, 0.0f);
    const int32_t j = state.chosen[i];
    if (j >= 0) w[j] = ChosenWeight(p, at.b, at.h, at.i + i, j);
    return;
  }
  const int64_t g = r.group_of(i);
  const int64_t from = RoundDown(r.group_begin[g], kLanes);
  const int64_t to = std::min(RoundUp(r.group_end[g], kLanes), p.Lk);
  FillRow(w, 0, from, 0.0f);
  FillRow(w, to, p.Lk, 0.0f);
  if (p.weigh != Weigh::softmax || c.once) return;
  for (int64_t j = RoundDown(from, c.by.keys); j < to; j += c.by.keys) {
    const float m = t.mem.block_max[(j / c.by.keys) * c.by.rows + i];
    const bool none = state.l[i] == 0.0f || m == -kInf;
    const float factor = none ? 0.0f : std::exp(m - state.m[i]) / state.l[i];
    const int64_t first = std::max(from, j), end = std::min(to, j + c.by.keys);
    WriteRow(w + first, end - first, factor, w + first, 1);
  }
}

HWY_INLINE void FinishRow(const ForwardTask& t, const BlockAt& at, int64_t i) {
  const ForwardCall& c = t.c;
  const AttentionProblem& p = c.p;
  const RowStates& state = t.state;
  const int64_t row = at.i + i;
  float* out = c.out.context.row(at.b, at.h, row);
  if (Hard(p.weigh)) {
    const int32_t j = state.chosen[i];
    c.out.chosen[(at.b * p.H + at.h) * p.Lq + row] = j;
    if (c.out.best) c.out.best[(at.b * p.H + at.h) * p.Lq + row] = state.best[i];
    const float none = std::isnan(state.m[i]) ? kNan : 0.0f;
    const float weight = j < 0 ? none : ChosenWeight(p, at.b, at.h, row, j);
    const Rows& values = t.side.values;
    const float* value = values.data + std::max(j, 0) * values.row;
    if (values.halves) {
      float* to = t.mem.context + i * RoundUp(p.Dv, kLanes);
      WidenRow(values, std::max(j, 0), 0, p.Dv, to);
      value = to;
    }
    WriteRow(value, p.Dv, weight, out, c.out.context.c);
    return;
  }
  const bool started = state.started[i / c.by.group];
  float factor = started ? 1.0f : 0.0f;
  if (p.weigh == Weigh::softmax && state.l[i] == 0.0f) factor = 0.0f;
  if (c.direct && factor != 0.0f) return;
  if (p.weigh == Weigh::softmax && factor != 0.0f && !c.once) factor = 1.0f / state.l[i];
  WriteRow(t.mem.context + i * RoundUp(p.Dv, kLanes), p.Dv, factor, out, c.out.context.c);
}

// stat ← m + log l, or m where that is a threshold. Positive l are normal: the largest term is 1.
HWY_INLINE void FinishStatistics(const AttentionProblem& p, RowStates& state, int64_t n,
                                 float* stat) {
  const F d;
  if (HasLogSumExp(p.weigh)) {
    for (int64_t i = 0; i < n; i += kLanes) {
      const Vec m = hn::Load(d, state.m + i), l = hn::Load(d, state.l + i);
      const Vec sum = hn::Add(m, hn::IfThenElse(hn::Eq(l, l), FastLogOfNormal(F(), l), l));
      hn::Store(hn::IfThenElse(hn::Eq(l, hn::Zero(d)), hn::Set(d, -kInf), sum), d, state.m + i);
    }
  }
  std::copy(state.m, state.m + n, stat);
}

// Rows of so few scores, all of them keys', are weighed in registers.
inline bool InRegisters(const ForwardCall& c, int64_t n) {
  return c.once && !c.p.sink && n <= 4 * kLanes;
}

// The weights of group g from its scores of all keys.
HWY_INLINE void WeighOnce(const ForwardTask& t, const Block& x, int64_t g) {
  const auto [first, m] = x.group(g);
  const Stretch all = StretchOf(x, first);
  const DenseRows s{t.mem.s + (all.from - x.j0), t.mem.lds};
  const OnlineSums sums{t.state.m + first, t.state.l + first};
  const int64_t keys = std::min(all.to, t.c.p.Lk) - all.from;
  switch (InRegisters(t.c, all.size()) ? all.size() / kLanes : 0) {
    case 1:
      Softmax<1>(s, keys, m, sums);
      break;
    case 2:
      Softmax<2>(s, keys, m, sums);
      break;
    case 3:
      Softmax<3>(s, keys, m, sums);
      break;
    case 4:
      Softmax<4>(s, keys, m, sums);
      break;
    default:
      float decay[kMaxBlockRows];
      AdvanceSoftmax(s, all.size(), m, sums, decay);
      for (int64_t i = 0; i < m; ++i) {
        if (sums.l[i] != 0.0f) ScaleRow(s.data + i * s.ld, all.size(), 1.0f / sums.l[i]);
      }
  }
  for (int64_t i = 0; i < m; ++i) {
    float* row = t.mem.s + i * t.mem.lds;
    if (std::isnan(sums.l[i])) NanRow(t.c.p, StretchOf(x, first + i), row);
    if (t.c.out.kept) KeepRow(t.c, StretchOf(x, first + i), row);
  }
}

// Masks and weighs the scores of group g.
HWY_INLINE void WeighGroup(const ForwardTask& t, const Block& x, int64_t g) {
  const ForwardCall& c = t.c;
  const ForwardScratch& mem = t.mem;
  const AttentionProblem& p = c.p;
  RowStates& state = t.state;
  const auto [first, m] = x.group(g);
  const int64_t ldc = RoundUp(p.Dv, kLanes);
  const Stretch all = StretchOf(x, first);
  if (all.from >= all.to) return;
  float decay[kMaxBlockRows];
  const bool ends = all.to > p.Lk && !InRegisters(c, all.size());
  if (p.masked() || p.center || ends) {
    for (int64_t i = 0; i < m; ++i) {
      const Stretch row = StretchOf(x, first + i);
      if (NeedsMask(p, row)) MaskRow(p, row, mem.s + i * mem.lds);
    }
  }
  for (int64_t i = 0; i < m && p.noisy; ++i) {
    AddGumbel(p, StretchOf(x, first + i), mem.s + i * mem.lds);
  }
  if (c.once) {
    WeighOnce(t, x, g);
  } else if (p.weigh == Weigh::softmax) {
    AdvanceSoftmax({mem.s + (all.from - x.j0), mem.lds}, all.size(), m,
                   {state.m + first, state.l + first}, decay);
  } else {
    for (int64_t i = 0; i < m; ++i) {
      const Stretch row = StretchOf(x, first + i);
      decay[i] = AdvanceRow(p, row, {mem.s + i * mem.lds, mem.spare}, state, first + i);
    }
  }
  for (int64_t i = 0; i < m && state.started[g]; ++i) {
    if (decay[i] != 1.0f) ScaleRow(mem.context + (first + i) * ldc, ldc, decay[i]);
  }
  if (!HasFactor(p) && !c.out.weights) return;
  for (int64_t i = 0; i < m; ++i) {
    const Stretch row = StretchOf(x, first + i);
    float* s = mem.s + i * mem.lds;
    if (HasFactor(p) && !Hard(p.weigh)) FactorRow(p, row, s);
    if (!c.out.weights) continue;
    mem.block_max[(x.j0 / c.by.keys) * c.by.rows + first + i] = state.m[first + i];
    KeepWeights(c, row, s);
  }
}

HWY_NOINLINE void ForwardBlock(const ForwardCall& c, const KeySide& side, const BlockAt& at,
                               float* scratch) {
  const AttentionProblem& p = c.p;
  const unit::Registers registers(p.matrix_unit);
  const ForwardScratch mem(p, c.by, scratch);
  const bool sums = !Hard(p.weigh);
  BlockRanges r;
  FindRanges(p, at, c.by.group, r);
  const QueryRows queries{QueriesOf(p, at.b, at.h, at.i), at.n};
  const ScoreSides sides{p, c.w, side.keys,
                         PackQueries(p, c.w, side.keys.range, queries, mem.queries)};
  RowStates state(at.n, !sums, SinkOf(p, at.h));
  const ForwardTask task{c, side, mem, state};

  for (int64_t j0 = RoundDown(r.first, c.by.keys); j0 < r.last; j0 += c.by.keys) {
    const Block x{at, r, j0, std::min(j0 + c.by.keys, r.last)};
    for (int64_t g = 0; g < x.groups(); ++g) {
      ScoreGroup(sides, x, g, {mem.s, mem.lds});
      WeighGroup(task, x, g);
      if (sums) SumValues(task, x, g);
    }
  }
  if (!sums) state.FinishChoices(at.n);
  for (int64_t i = 0; i < at.n; ++i) {
    if (c.out.weights) FinishWeights(task, r, at, i);
    if (c.out.context) FinishRow(task, at, i);
    if (c.out.kept && !state.started[r.group_of(i)]) KeepRow(c, {at.b, at.h, at.i + i}, mem.s);
  }
  if (c.out.stat) FinishStatistics(p, state, at.n, c.out.stat + (at.b * p.H + at.h) * p.Lq + at.i);
}

// Of values in pairs; the matrix unit takes 16 at a time from any one on, and finds zeros behind.
inline int64_t ValueWordRows(const AttentionProblem& p) {
  return (p.Lk + 1) / 2 + (p.matrix_unit ? unit::kSide : 0);
}

inline int64_t ValueFloats(const AttentionProblem& p) {
  if (ValuesInPairs(p)) return Hard(p.weigh) ? 0 : ValueWordRows(p) * RoundUp(p.Dv, kLanes);
  return ReadableInPlace(ValuesOf(p, 0, 0), p.Dv) ? 0 : p.Lk * RoundUp(p.Dv, kLanes);
}

HWY_NOINLINE KeySide PrepareKeySide(const ForwardCall& c, int64_t b, int64_t hk, float* to) {
  const AttentionProblem& p = c.p;
  KeySide side{PackKeys(p, c.w, b, hk, to), ValuesOf(p, b, hk), false};
  side.careful = !side.keys.finite;
  if (ValuesInPairs(p)) {
    if (Hard(p.weigh)) return side;
    auto* pairs = reinterpret_cast<uint32_t*>(to + KeyFloats(p));
    PackValuePairs(side.values, p.Lk, p.Dv, ValueWordRows(p), {pairs, RoundUp(p.Dv, kLanes)});
    side.pairs = pairs;
  } else if (ValueFloats(p) > 0) {
    float* values = to + KeyFloats(p);
    PackRows(side.values, p.Lk, p.Dv, 1.0f, {values, RoundUp(p.Dv, kLanes)});
    side.values = {values, RoundUp(p.Dv, kLanes), 1};
  }
  return side;
}

void Forward(const AttentionProblem& p, const AttentionResult& out) {
  if (DecodeSuits(p, out)) return Decode(p, out);
  const AdditiveStore additive = PrepareAdditive(p);
  Blocking by = BlockingFor(p, WholeRows(p.weigh), static_cast<bool>(out.weights));
  // Of wide rows, what a block of keys takes stays in the second-level cache.
  if (by.keys == kBlockKeys && p.Lk > kBlockKeys && p.D + p.Dv > 128) by.keys = kBlockKeys / 2;
  if (out.kept && p.Lk > by.keys) by.keys = kBlockKeys;  // what is kept is of all keys at once
  const bool once = p.weigh == Weigh::softmax && p.Lk <= by.keys;
  HWY_DASSERT(!out.kept || once);
  const bool whole = !p.matrix_unit || p.Lq % unit::kSide == 0;  // rows as they are multiplied
  const bool direct = once && whole && out.context.c == 1 && p.Dv % kLanes == 0;
  const ForwardCall call{p, out, by, additive.weights, once, direct};
  const int64_t blocks = (p.Lq + call.by.rows - 1) / call.by.rows;
  const auto block_at = [&](int64_t b, int64_t h, int64_t block) {
    const int64_t i = block * call.by.rows;
    return BlockAt{b, h, i, std::min(call.by.rows, p.Lq - i)};
  };
  const int64_t pairs = p.B * p.Hk;
  const int64_t side_floats = KeyFloats(p) + ValueFloats(p);
  const int64_t scratch_floats = ForwardScratch::Floats(p, call.by);
  const Crew crew;

  if (blocks * p.group() <= 2) {  // keys serve few blocks: pack them where they are used
    const Buffer<float> scratch(crew.size() * (scratch_floats + side_floats));
    // Neighbours together: what is read and written next lies beside what was.
    const int64_t run = std::clamp<int64_t>(pairs / (8 * crew.size()), 1, 16);
    crew.run((pairs + run - 1) / run, [&](int64_t task, int place) {
      float* mine = scratch.data() + place * (scratch_floats + side_floats);
      for (int64_t unit = task * run; unit < std::min(pairs, (task + 1) * run); ++unit) {
        const int64_t b = unit / p.Hk, hk = unit % p.Hk;
        const KeySide side = PrepareKeySide(call, b, hk, mine + scratch_floats);
        for (int64_t h = hk * p.group(); h < (hk + 1) * p.group(); ++h) {
          for (int64_t i = 0; i < blocks; ++i) ForwardBlock(call, side, block_at(b, h, i), mine);
        }
      }
    });
    return;
  }
  const Buffer<float> packed(pairs * side_floats);
  const Buffer<float> scratch(crew.size() * scratch_floats);
  std::vector<KeySide> sides(static_cast<size_t>(pairs));
  parallel_for(pairs, [&](int64_t unit) {
    sides[unit] =
        PrepareKeySide(call, unit / p.Hk, unit % p.Hk, packed.data() + unit * side_floats);
  });
  // The last blocks first: under a causal mask they have the most to do.
  crew.run(blocks * p.B * p.H, [&](int64_t unit, int place) {
    const int64_t bh = unit / blocks, i = blocks - 1 - unit % blocks;
    const int64_t b = bh / p.H, h = bh % p.H;
    ForwardBlock(call, sides[b * p.Hk + h / p.group()], block_at(b, h, i),
                 scratch.data() + place * scratch_floats);
  });
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_ATTENTION_FORWARD_INL_H_
