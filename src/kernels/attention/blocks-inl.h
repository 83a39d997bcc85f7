// How a problem is cut into blocks, what each block may see, and the packed key side.
#if defined(FOVEA_ATTENTION_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_ATTENTION_BLOCKS_INL_H_
#undef FOVEA_ATTENTION_BLOCKS_INL_H_
#else
#define FOVEA_ATTENTION_BLOCKS_INL_H_
#endif

#include <array>

#include "core/memory.h"
#include "core/threads.h"
#include "kernels/attention/pack-inl.h"
#include "kernels/attention/problem.h"
#include "kernels/attention/rows-inl.h"
#include "kernels/attention/scores-inl.h"
#include "kernels/attention/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

constexpr int64_t kMaxBlockRows = 64;
constexpr int64_t kBlockKeys = 512;  // fixed, so that a row's arithmetic depends on nothing else

// Weightings that need a whole row of scores at once.
inline bool WholeRows(Weigh w) {
  return w == Weigh::sparsemax || w == Weigh::entmax15 || w == Weigh::formula;
}
inline bool Hard(Weigh w) { return w == Weigh::sample || w == Weigh::argmax || w == Weigh::gumbel; }
inline bool HasLogSumExp(Weigh w) {
  return w == Weigh::softmax || w == Weigh::sample || w == Weigh::gumbel;
}

// Whether some row's weights cannot be told from its log-sum-exp alone.
inline bool AnyLargeStat(const AttentionProblem& p, const float* stat) {
  return stat && HasLogSumExp(p.weigh) && std::any_of(stat, stat + p.rows(), LargeStat);
}

struct Blocking {
  int64_t rows;  // queries in a block
  int64_t keys;  // keys scored at a time
};

inline Blocking BlockingFor(const AttentionProblem& p, bool whole_rows, bool keep_weights) {
  if (whole_rows) {  // at most about 1 MiB of scores
    const int64_t keys = std::max(RoundUp(p.Lk, kPanel), kPanel);
    return {std::clamp(RoundDown((1 << 18) / keys, kGroup), kGroup, kMaxBlockRows), keys};
  }
  return {keep_weights ? 16 : kMaxBlockRows, kBlockKeys};
}

// The ranges of a block's rows, and of each group of 8 rows together.
struct BlockRanges {
  std::array<int32_t, kMaxBlockRows> begin, end;
  std::array<int32_t, kMaxBlockRows / kGroup> group_begin, group_end;
  int64_t first = 0, last = 0;  // of the whole block
};

HWY_INLINE void FindRanges(const AttentionProblem& p, int64_t b, int64_t h, const int64_t* rows,
                           int64_t i0, int64_t n, BlockRanges& r) {
  if (!p.begin) {
    const auto Lk = static_cast<int32_t>(p.Lk);
    const int64_t groups = (n + kGroup - 1) / kGroup;
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
  for (int64_t g = 0; g * kGroup < n; ++g) {
    int32_t lo = static_cast<int32_t>(p.Lk), hi = 0;
    for (int64_t i = g * kGroup; i < std::min(n, (g + 1) * kGroup); ++i) {
      const int64_t row = rows ? rows[i0 + i] : i0 + i;
      r.begin[i] = std::max(*p.begin.row(b, h, row), 0);
      r.end[i] = std::min(*p.end.row(b, h, row), static_cast<int32_t>(p.Lk));
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

// u·scale/T in the three arrangements that the tiles read.
struct AdditiveStore {
  Buffer<float> data;
  AdditiveWeights weights;
};

inline AdditiveStore PrepareAdditive(const AttentionProblem& p) {
  AdditiveStore store;
  if (p.family != Family::additive) return store;
  const int64_t padded = RoundUp(PanelRows(p.D), kLanes);
  store.data = Buffer<float>(3 * padded + 4);
  float *u = store.data.data(), *swapped = u + padded, *pairs = swapped + padded;
  double total = 0.0;
  for (int64_t d = 0; d < padded; ++d) {
    u[d] = d < p.D ? p.u[d] * (p.scale / p.temperature) : 0.0f;
    total += u[d];
  }
  for (int64_t d = 0; d < padded; ++d) swapped[d] = (d ^ 1) < padded ? u[d ^ 1] : 0.0f;
  for (int64_t d = 0; d + 1 < padded; d += 2) pairs[d / 2] = u[d] + u[d + 1];
  store.weights = {u, swapped, pairs, static_cast<float>(total)};
  return store;
}

// The key side of (b, hk) into `to` (KeyFloats of it).
inline int64_t KeyFloats(const AttentionProblem& p) {
  return p.family == Family::given ? 0 : PanelFloats(p.Lk, p.D);
}

inline float LargestQuery(const AttentionProblem& p, int64_t b, int64_t hk) {
  float a = 0.0f;
  for (int64_t h = hk * p.group(); h < (hk + 1) * p.group(); ++h) {
    a = std::max(a, LargestMagnitude(RowsOf(p.q, b, h), p.Lq, p.D));
  }
  return a;
}

HWY_NOINLINE PackedKeys PackKeys(const AttentionProblem& p, int64_t b, int64_t hk, float* to) {
  PackedKeys keys{to, Range::small, true};
  const Rows from = RowsOf(p.k, b, hk);
  if (p.family == Family::dot) PackPanels(from, p.Lk, p.D, {.factor = p.scale / p.temperature}, to);
  if (p.family == Family::additive) {
    Magnitude kappa = NothingSeen();
    PackPanels(from, p.Lk, p.D, {.exponential = &kappa}, to);
    keys.range = RangeOf(LargestQuery(p, b, hk), kappa.Largest());
    if (keys.range == Range::large) PackPanels(from, p.Lk, p.D, {}, to);
  }
  if (p.masked()) {
    keys.finite = AllFinite(RowsOf(p.v, b, hk), p.Lk, p.Dv) &&
                  (p.family == Family::given || AllFinite(RowsOf(p.k, b, hk), p.Lk, p.D));
  }
  return keys;
}

// Calls f(j, n) for the parts of panels in [j0, j1) that a group sees; whole vectors.
template <class Function>
HWY_INLINE void EachPart(const BlockRanges& r, int64_t g, int64_t j0, int64_t j1,
                         const Function& f) {
  const int64_t from = std::max(RoundDown(r.group_begin[g], kLanes), j0);
  const int64_t to = std::min(RoundUp(r.group_end[g], kLanes), RoundUp(j1, kLanes));
  for (int64_t j = from; j < to;) {
    const int64_t next = std::min(RoundDown(j, kPanel) + kPanel, to);
    f(PanelPart{j, next - j});
    j = next;
  }
}

// Scores of group g's rows and keys [j0, j1) into s [8][lds], where the group sees any.
HWY_INLINE void ScoreGroup(const AttentionProblem& p, const PackedKeys& keys,
                           const PackedQueries& queries, const AdditiveWeights& w,
                           const ScoreBlock& at, const BlockRanges& r, int64_t g, int64_t m,
                           int64_t j0, int64_t j1, float* s, int64_t lds) {
  EachPart(r, g, j0, j1, [&](PanelPart part) HWY_ATTR {
    ScorePanel(p, keys, queries, w, at, g * kGroup, m, part, s + (part.j - j0), lds);
  });
}

// The part of row i of the block that lies in keys [j0, j1).
HWY_INLINE Stretch StretchOf(const BlockRanges& r, const ScoreBlock& at, int64_t i, int64_t row,
                             int64_t j0, int64_t j1) {
  const int64_t g = i / kGroup;
  const int64_t from = std::clamp<int64_t>(RoundDown(r.group_begin[g], kLanes), j0, j1);
  const int64_t to =
      std::clamp<int64_t>(RoundUp(r.group_end[g], kLanes), from, RoundUp(j1, kLanes));
  return {at.b,
          at.h,
          row,
          j0,
          std::clamp<int64_t>(r.begin[i], from, to),
          std::clamp<int64_t>(r.end[i], from, to),
          from,
          to};
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_ATTENTION_BLOCKS_INL_H_
