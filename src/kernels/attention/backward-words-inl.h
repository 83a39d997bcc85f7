// The products of the backward pass in bf16, by the matrix unit. Weights, their gradients and
// d_context are rounded to bf16 before they are multiplied; sums, and all between products, are
// float32. Everything is finite here; of d_context, so is what it is rounded to below 3.39e38.
#if defined(FOVEA_ATTENTION_BACKWARD_WORDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_ATTENTION_BACKWARD_WORDS_INL_H_
#undef FOVEA_ATTENTION_BACKWARD_WORDS_INL_H_
#else
#define FOVEA_ATTENTION_BACKWARD_WORDS_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "kernels/attention/backward-task-inl.h"
#include "kernels/attention/pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

inline void PackUnitWords(const BackwardCall& c, const KeyScratch& mem, int64_t b, int64_t hk,
                          UnitKeys& keys) {
  const AttentionProblem& p = c.p;
  auto* const v = reinterpret_cast<uint32_t*>(mem.v_panels);
  auto* const k = reinterpret_cast<uint32_t*>(mem.k_rows);
  PackKeyPairs(ValuesOf(p, b, hk), p.Lk, p.Dv, UnitWords(p.Dv), v);
  PackValuePairs(KeysOf(p, b, hk), p.Lk, p.D, ValueWordRows(p), {k, c.ld});
  keys.v_words = v;
  keys.k_pairs = k;
}

// Rows of d_context are whole vectors.
HWY_NOINLINE void PackBlockWords(const BackwardCall& c, const WordScratch& to, const Rows& d_out,
                                 const BlockAt& at) {
  const AttentionProblem& p = c.p;
  const DenseRows rows{const_cast<float*>(d_out.data), d_out.row};
  const int64_t words = UnitWords(p.Dv), pairs = RoundUp(at.n, 2 * unit::kSide) / 2;
  WordsOfRows(rows, at.n, p.Dv, words, to.d_out);
  std::fill(to.d_out.data + at.n * words, to.d_out.data + RoundUp(at.n, unit::kSide) * words, 0u);
  for (int64_t i = 0; i < pairs; ++i) {
    const float* first = d_out.data + 2 * i * d_out.row;
    uint32_t* pair = to.d_pairs.data + i * to.d_pairs.ld;
    if (2 * i >= at.n) {
      std::fill(pair, pair + to.d_pairs.ld, 0u);
      continue;
    }
    PairOfRows(first, 2 * i + 1 < at.n ? first + d_out.row : nullptr, c.ldv, pair);
  }
  PackValuePairs(QueriesOf(p, at.b, at.h, at.i), at.n, p.D, pairs, to.q_pairs);
}

// dw[rows][keys of a panel] ← d_context·vᵀ.
HWY_INLINE void WeightGradientWords(const BackwardTask& t, RowsPart rows, PanelPart part,
                                    DenseRows dw) {
  const DenseWords& d_out = t.unit.mem.words.d_out;
  const int64_t words = UnitWords(t.unit.c.p.Dv), inside = part.j % kPanelKeys;
  MatMulByUnit({.a = {d_out.data + rows.first * d_out.ld, d_out.ld, 1},
                .b = t.unit.keys.v_words + (part.j - inside) * words + inside,
                .ldb = kPanelKeys,
                .c = dw.data,
                .ldc = dw.ld,
                .m = rows.m,
                .n = part.n,
                .K = words,
                .accumulate = false});
}

// dq += ds·k, over the keys that a group sees, from an even one on.
HWY_INLINE void AddQueryGradientWords(const BackwardTask& t, RowsPart rows, PanelPart keys,
                                      DenseRows dq) {
  const BackwardCall& c = t.unit.c;
  const BackwardScratch& mem = t.unit.mem;
  const int64_t first = RoundDown(keys.j, 2), n = keys.j + keys.n - first;
  const int64_t words = (n + 1) / 2, i = rows.first;
  const DenseRows ds{mem.dw + i * mem.lds + (first - t.block.j0), mem.lds};
  WordsOfRows(ds, rows.m, n, RoundUp(words, unit::kSide), mem.words.rows);
  MatMulByUnit({.a = {mem.words.rows.data, mem.words.rows.ld, 1},
                .b = t.unit.keys.k_pairs + first / 2 * c.ld,
                .ldb = c.ld,
                .c = dq.data + i * dq.ld,
                .ldc = dq.ld,
                .m = rows.m,
                .n = c.p.D,
                .K = words,
                .accumulate = !c.covers || t.block.j0 > 0});
}

// dv += wᵀ·d_context and dk += dsᵀ·q, of one panel's keys over the rows that see them.
HWY_INLINE void AddKeyGradientWords(const BackwardTask& t, RowsPart rows, PanelPart keys,
                                    bool accumulate) {
  const BackwardCall& c = t.unit.c;
  const BackwardScratch& mem = t.unit.mem;
  const UnitSums& sums = t.unit.sums;
  const WordScratch& words = mem.words;
  const int64_t at = rows.first * mem.lds + (keys.j - t.block.j0);
  const auto add = [&](const float* left, const DenseWords& right, DenseRows to, int64_t width) {
    WordsOfColumns({const_cast<float*>(left) + at, mem.lds}, rows.m, RoundUp(keys.n, kLanes),
                   words.columns);
    MatMulByUnit({.a = {words.columns.data, words.columns.ld, 1},
                  .b = right.data + rows.first / 2 * right.ld,
                  .ldb = right.ld,
                  .c = to.data + keys.j * to.ld,
                  .ldc = to.ld,
                  .m = keys.n,
                  .n = width,
                  .K = (rows.m + 1) / 2,
                  .accumulate = accumulate});
  };
  if (sums.dv.data && c.values) add(mem.s, words.d_pairs, sums.dv, c.p.Dv);
  add(mem.dw, words.q_pairs, sums.dk, c.p.D);
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_ATTENTION_BACKWARD_WORDS_INL_H_
