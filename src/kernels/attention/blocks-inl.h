// How a problem is cut into blocks, what each block may see, and the packed key side.
#if defined(FOVEA_ATTENTION_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_ATTENTION_BLOCKS_INL_H_
#undef FOVEA_ATTENTION_BLOCKS_INL_H_
#else
#define FOVEA_ATTENTION_BLOCKS_INL_H_
#endif

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "core/allocator.h"
#include "core/processor.h"
#include "core/threads.h"
#include "kernels/attention/pack-inl.h"
#include "kernels/attention/problem.h"
#include "kernels/attention/rows-inl.h"
#include "kernels/attention/scores-inl.h"
#include "kernels/attention/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

constexpr int64_t kMaxBlockRows = kManyRegisters ? 64 : 72;  // whole groups
constexpr int64_t kMaxGroups = (kMaxBlockRows + kGroupRows - 1) / kGroupRows;
constexpr int64_t kUnitRows = 2 * unit::kSide;  // a group's, where the matrix unit multiplies
constexpr int64_t kBlockKeys = 512;             // by shapes alone, so that a row's arithmetic is

// Weightings that need a whole row of scores at once.
inline bool WholeRows(Weigh w) {
  return w == Weigh::sparsemax || w == Weigh::entmax15 || w == Weigh::formula;
}
inline bool Hard(Weigh w) { return w == Weigh::sample || w == Weigh::argmax || w == Weigh::gumbel; }
inline bool HasLogSumExp(Weigh w) {
  return w == Weigh::softmax || w == Weigh::sample || w == Weigh::gumbel;
}

// Whether some row has no weights: NaN and nothing else must reach the gradients of what it sees,
// and what −inf forbids must not meet an infinite factor.
inline bool AnyUndefined(const AttentionProblem& p, const float* stat) {
  return stat && WeighsRows(p.weigh) && std::any_of(stat, stat + p.rows(), [&](float s) {
           return std::isnan(s) || (s == -kInf && !p.masked());
         });
}

// Whether some row's weights cannot be told from its log-sum-exp alone.
inline bool AnyLargeStat(const AttentionProblem& p, const float* stat) {
  return stat && p.whole_rows && WeighsRows(p.weigh) &&
         std::any_of(stat, stat + p.rows(), LargeStat);
}

struct Blocking {
  int64_t rows;   // queries in a block
  int64_t keys;   // keys scored at a time
  int64_t group;  // queries that go from scores to values together
};

inline Blocking BlockingFor(const AttentionProblem& p, bool whole_rows, bool keep_weights) {
  const int64_t group = p.matrix_unit ? kUnitRows : kGroupRows;
  if (whole_rows) {  // at most about 1 MiB of scores, or one group's
    const int64_t keys = std::max(RoundUp(p.Lk, kPanelKeys), kPanelKeys);
    return {std::clamp(RoundDown((1 << 18) / keys, group), group, kMaxBlockRows), keys, group};
  }
  const int64_t rows = keep_weights ? 16 : kMaxBlockRows;
  // The scores of all rows against one panel stay in the first-level cache.
  if (p.Lk <= kPanelKeys) return {rows, kPanelKeys, p.begin ? std::min(rows, group) : rows};
  return {rows, p.matrix_unit ? kBlockKeys / 2 : kBlockKeys, std::min(rows, group)};
}

// Query rows i … i+n of (b, h); or `picked`[i …], where there are some.
struct BlockAt {
  int64_t b, h, i, n;
  const int64_t* picked = nullptr;
  int64_t row(int64_t of_block) const { return picked ? picked[i + of_block] : i + of_block; }
};

// The ranges of a block's rows, and of each group of rows together.
struct BlockRanges {
  int64_t group;  // rows in one
  std::array<int32_t, kMaxBlockRows> begin, end;
  std::array<int32_t, kMaxGroups> group_begin, group_end;
  int64_t first = 0, last = 0;  // of the whole block
  int64_t group_of(int64_t row) const { return row / group; }
};

HWY_INLINE void FindRanges(const AttentionProblem& p, const BlockAt& at, int64_t group,
                           BlockRanges& r) {
  const int64_t n = at.n;
  r.group = group;
  if (!p.begin) {
    const auto Lk = static_cast<int32_t>(p.Lk);
    const int64_t groups = (n + group - 1) / group;
    std::fill_n(r.begin.begin(), n, 0);
    std::fill_n(r.end.begin(), n, Lk);
    std::fill_n(r.group_begin.begin(), groups, 0);
    std::fill_n(r.group_end.begin(), groups, Lk);
    r.first = 0;
    r.last = p.Lk;
    return;
  }
  r.first = p.Lk;
  r.last = 0;
  for (int64_t g = 0; g * group < n; ++g) {
    int32_t lo = static_cast<int32_t>(p.Lk), hi = 0;
    for (int64_t i = g * group; i < std::min(n, (g + 1) * group); ++i) {
      const int64_t row = at.row(i);
      r.begin[i] = std::max(*p.begin.row(at.b, at.h, row), 0);
      r.end[i] = std::min(*p.end.row(at.b, at.h, row), static_cast<int32_t>(p.Lk));
      if (r.begin[i] >= r.end[i]) r.begin[i] = r.end[i] = 0;
      if (r.begin[i] == r.end[i]) continue;
      lo = std::min(lo, r.begin[i]);
      hi = std::max(hi, r.end[i]);
    }
    r.group_begin[g] = std::min(lo, hi);
    r.group_end[g] = hi;
    if (hi == 0) continue;
    r.first = std::min<int64_t>(r.first, lo);
    r.last = std::max<int64_t>(r.last, hi);
  }
  r.first = std::min(r.first, r.last);
}

// u·scale/T as the tiles read it. A u below 2⁻³² of the largest is taken for 0: its y is a
// constant.
struct AdditiveStore {
  Buffer<float> data;
  AdditiveWeights weights;
};

inline AdditiveStore PrepareAdditive(const AttentionProblem& p) {
  AdditiveStore store;
  if (p.family != Family::additive) return store;
  const int64_t padded = RoundUp(PanelRows(p.D), kLanes);
  store.data = Buffer<float>(3 * padded);
  float *u = store.data.data(), *inverse = u + padded, *constant = inverse + padded;
  AdditiveWeights& w = store.weights;
  w = {u, inverse, constant};
  double total = 0.0;
  for (int64_t d = 0; d < padded; ++d) {
    u[d] = d < p.D ? p.u[d] * (p.scale / p.temperature) : 0.0f;
    w.most = std::max(w.most, std::fabs(u[d]));
    total += u[d];
  }
  float largest = 1.0f;  // of the inverses
  double nothing = 0.0;
  for (int64_t d = 0; d < padded; ++d) {
    const bool counts = !(std::fabs(u[d]) * kNothing <= w.most);
    inverse[d] = counts ? w.most / u[d] : 0.0f;
    constant[d] = counts ? inverse[d] : kNothing;
    if (counts) largest = std::max(largest, std::fabs(inverse[d]));
    if (!counts && d < PanelRows(p.D)) nothing += 1.0 / kNothing;
  }
  w.total = static_cast<float>(total);
  w.offset = static_cast<float>(total + 2.0 * w.most * nothing);
  w.inverses = best_inverses();
  w.reach = (62.0f - std::log2(largest)) * 0.34657f;  // x·largest < 2⁶², x = 1 + e^{2(a+κ)}
  return store;
}

// The key side of (b, hk) into `to` (KeyFloats of it).
inline int64_t KeyFloats(const AttentionProblem& p) {
  if (p.family == Family::given) return 0;
  if (KeysInPairs(p)) return RoundUp(p.Lk, kPanelKeys) * KeyWords(p);
  return PanelFloats(p.Lk, p.D);
}

inline float LargestQuery(const AttentionProblem& p, int64_t b, int64_t hk) {
  float a = 0.0f;
  for (int64_t h = hk * p.group(); h < (hk + 1) * p.group(); ++h) {
    a = std::max(a, LargestMagnitude(RowsOf(p.q, b, h), p.Lq, p.D));
  }
  return a;
}

// Whether all of k and v is, looked at where some weights may be 0.
inline bool KeysFinite(const AttentionProblem& p, int64_t b, int64_t hk) {
  return !(p.masked() || p.dropout > 0.0f || WholeRows(p.weigh)) || p.finite ||
         (AllFinite(ValuesOf(p, b, hk), p.Lk, p.Dv) &&
          (p.family == Family::given || AllFinite(KeysOf(p, b, hk), p.Lk, p.D)));
}

HWY_NOINLINE PackedKeys PackKeys(const AttentionProblem& p, const AdditiveWeights& w, int64_t b,
                                 int64_t hk, float* to) {
  PackedKeys keys{to, nullptr, Range::small, KeysFinite(p, b, hk)};
  const Rows from = KeysOf(p, b, hk);
  if (KeysInPairs(p)) {
    auto* pairs = reinterpret_cast<uint32_t*>(to);
    PackKeyPairs(from, p.Lk, p.D, KeyWords(p), pairs);
    keys.pairs = pairs;
    return keys;
  }
  if (p.family == Family::dot) PackPanels(from, p.Lk, p.D, {.factor = p.scale / p.temperature}, to);
  if (p.family == Family::additive) {
    Magnitude kappa = NothingSeen();
    PackPanels(from, p.Lk, p.D, {.exponential = &kappa}, to);
    keys.range = RangeOf(LargestQuery(p, b, hk), kappa.Largest(), w);
    if (keys.range == Range::large) PackPanels(from, p.Lk, p.D, {}, to);
  }
  return keys;
}

// A block's rows against keys [j0, j1).
struct Block {
  BlockAt at;
  const BlockRanges& r;
  int64_t j0, j1;
  int64_t groups() const { return (at.n + r.group - 1) / r.group; }
  RowsPart group(int64_t g) const { return {g * r.group, std::min(r.group, at.n - g * r.group)}; }
};

// Calls f(j, n) for the parts of panels that group g sees; whole vectors.
template <class Function>
HWY_INLINE void EachPart(const Block& x, int64_t g, const Function& f) {
  const int64_t from = std::max(RoundDown(x.r.group_begin[g], kLanes), x.j0);
  const int64_t to = std::min(RoundUp(x.r.group_end[g], kLanes), RoundUp(x.j1, kLanes));
  for (int64_t j = from; j < to;) {
    const int64_t next = std::min(RoundDown(j, kPanelKeys) + kPanelKeys, to);
    f(PanelPart{j, next - j});
    j = next;
  }
}

// Scores of group g into s, where the group sees any.
HWY_INLINE void ScoreGroup(const ScoreSides& sides, const Block& x, int64_t g, DenseRows s) {
  const RowsPart rows = x.group(g);
  EachPart(x, g, [&](PanelPart part) HWY_ATTR {
    ScorePanel(sides, {x.at.b, x.at.h, x.at.i + rows.first}, rows, part,
               {s.data + (part.j - x.j0), s.ld});
  });
}

// The part of row i of the block that lies in its keys.
HWY_INLINE Stretch StretchOf(const Block& x, int64_t i) {
  const int64_t g = x.r.group_of(i);
  const int64_t from = std::clamp<int64_t>(RoundDown(x.r.group_begin[g], kLanes), x.j0, x.j1);
  const int64_t to =
      std::clamp<int64_t>(RoundUp(x.r.group_end[g], kLanes), from, RoundUp(x.j1, kLanes));
  return {x.at.b,
          x.at.h,
          x.at.row(i),
          x.j0,
          std::clamp<int64_t>(x.r.begin[i], from, to),
          std::clamp<int64_t>(x.r.end[i], from, to),
          from,
          to};
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_ATTENTION_BLOCKS_INL_H_
