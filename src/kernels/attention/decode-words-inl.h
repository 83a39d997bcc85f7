// A few queries against keys and values of bf16, read where they lie as words of two neighbours.
#if defined(FOVEA_ATTENTION_DECODE_WORDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_ATTENTION_DECODE_WORDS_INL_H_
#undef FOVEA_ATTENTION_DECODE_WORDS_INL_H_
#else
#define FOVEA_ATTENTION_DECODE_WORDS_INL_H_
#endif

#include <hwy/cache_control.h>

#include <algorithm>
#include <cstdint>

#include "core/allocator.h"
#include "kernels/attention/pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

// Rows are fetched so many bytes before they are read: what fetches by itself stops at a page's
// end.
constexpr int64_t kDecodeAhead = 8192, kFloat = sizeof(float);
HWY_INLINE int64_t RowsAhead(int64_t bytes) {
  return std::max<int64_t>(2, kDecodeAhead / std::max<int64_t>(1, bytes));
}
HWY_INLINE void FetchRow(const void* row, int64_t bytes) {
  for (int64_t c = 0; c < bytes; c += 64) hwy::Prefetch(static_cast<const char*>(row) + c);
}

// n rows of bf16, `row` numbers apart; of any alignment.
struct WordRows {
  const uint16_t* data;
  int64_t row, n;
  HWY_INLINE Words At(int64_t i, int64_t word) const {
    return hn::LoadU(U(), reinterpret_cast<const uint32_t*>(data + i * row + 2 * word));
  }
  HWY_INLINE void Fetch(int64_t i, int64_t bytes) const { FetchRow(data + i * row, bytes); }
};

// s[r][j] = factor·q[r]·k[j] for R rows. Words of q, or its even numbers and then its odd ones.
template <int R, bool kDots>
HWY_INLINE void WordScoresOf(const float* queries, int64_t D, const WordRows& k, DenseRows s,
                             float factor, bool fetch) {
  const F d;
  const int64_t words = D / 2, bytes = fetch ? words * kFloat : 0,
                ahead = RowsAhead(words * kFloat);
  const float* HWY_RESTRICT q = queries;
  const auto add = [&](int r, int64_t c, Words key, Vec sum) HWY_ATTR {
    const float* at = q + r * D + c;
    if constexpr (kDots) return AddDots(sum, hn::BitCast(U(), hn::LoadU(d, at)), key);
    sum = hn::MulAdd(hn::LoadU(d, at), FirstOf(key), sum);
    return hn::MulAdd(hn::LoadU(d, at + words), SecondOf(key), sum);
  };
  int64_t j = 0;
  for (; j + 4 <= k.n; j += 4) {
    for (int i = 0; i < 4; ++i) k.Fetch(j + ahead + i, bytes);
    Vec sum[R][4];
    HWY_UNROLL(4)
    for (int r = 0; r < R; ++r) {
      HWY_UNROLL(4)
      for (int i = 0; i < 4; ++i) sum[r][i] = hn::Zero(d);
    }
    for (int64_t c = 0; c < words; c += kLanes) {
      HWY_UNROLL(4)
      for (int i = 0; i < 4; ++i) {
        const Words key = k.At(j + i, c);
        HWY_UNROLL(4)
        for (int r = 0; r < R; ++r) sum[r][i] = add(r, c, key, sum[r][i]);
      }
    }
    HWY_UNROLL(4)
    for (int r = 0; r < R; ++r) SumsOf(sum[r], s.data + r * s.ld + j);
  }
  for (; j < k.n; ++j) {
    for (int r = 0; r < R; ++r) {
      Vec sum = hn::Zero(d);
      for (int64_t c = 0; c < words; c += kLanes) sum = add(r, c, k.At(j, c), sum);
      const Vec alike[4] = {sum, sum, sum, sum};  // added up in the same order
      SumsOf(alike, s.data + r * s.ld + j);
    }
  }
  for (int r = 0; r < R && factor != 1.0f; ++r) {
    for (j = 0; j < k.n; ++j) s.data[r * s.ld + j] *= factor;
  }
}

template <bool kDots>
HWY_INLINE void WordScoreRows(const float* q, int64_t rows, int64_t D, const WordRows& k,
                              DenseRows s, float factor) {
  constexpr int kRows = kManyRegisters ? 4 : 2;
  int64_t r = 0;
  for (; r + kRows <= rows; r += kRows) {
    WordScoresOf<kRows, kDots>(q + r * D, D, k, {s.data + r * s.ld, s.ld}, factor, r == 0);
  }
  for (; r < rows; ++r) {
    WordScoresOf<1, kDots>(q + r * D, D, k, {s.data + r * s.ld, s.ld}, factor, r == 0);
  }
}

// s[r] = factor·q[r]·kᵀ. Floats q [rows][D] are overwritten: they are laid apart as words are read.
// `dots`: they are bf16, and words are multiplied.
HWY_NOINLINE void WordScores(float* q, int64_t rows, int64_t D, const WordRows& k, bool dots,
                             DenseRows s, float factor) {
  Buffer<float> apart(D);
  for (int64_t r = 0; r < rows; ++r) {
    float* row = q + r * D;
    if (dots) {
      WordsOfRows({row, D}, 1, D, 0, {reinterpret_cast<uint32_t*>(apart.data()), D});
      std::copy_n(apart.data(), D / 2, row);
      continue;
    }
    for (int64_t c = 0; c < D / 2; ++c) {
      apart[c] = row[2 * c];
      apart[D / 2 + c] = row[2 * c + 1];
    }
    std::copy_n(apart.data(), D, row);
  }
  if (dots) return WordScoreRows<true>(q, rows, D, k, s, factor);
  WordScoreRows<false>(q, rows, D, k, s, factor);
}

// ---- By the matrix unit ------------------------------------------------------------------------
// Sums of 16 keys by up to 16 queries: sᵀ = k·qᵀ, whose left side are keys as they lie in memory.
// Values become words of two keys, as many at a time as stay in the first-level cache. Nothing is
// fetched ahead: that costs a fifth here.

constexpr int64_t kUnitKeys = 64;

// Whether rows are an even number of numbers apart, and words fill the unit.
inline bool UnitReads(const WordRows& x, int64_t width) {
  return x.row % 2 == 0 && width % (2 * unit::kSide) == 0;
}

// s[r] = factor·q[r]·kᵀ of whole blocks of 16 keys; gives how many keys that is. Floats q
// [rows][D].
HWY_NOINLINE int64_t WordScoresByUnit(const float* q, int64_t rows, int64_t D, const WordRows& k,
                                      DenseRows s, float factor) {
  constexpr int64_t kSide = unit::kSide;
  const int64_t words = D / 2, keys = RoundDown(k.n, kSide);
  const Buffer<uint32_t> memory(kSide * words * 2);
  uint32_t *by_query = memory.data(), *by_feature = by_query + kSide * words;
  std::fill(by_query, by_query + kSide * words, 0u);
  WordsOfRows({const_cast<float*>(q), D}, rows, D, 0, {by_query, words});
  for (int64_t c = 0; c < words; c += kSide) {
    TransposeSquare(reinterpret_cast<const float*>(by_query) + c, words, Unscaled(),
                    reinterpret_cast<float*>(by_feature) + c * kSide, kSide);
  }
  HWY_ALIGN float sums[2 * kSide * kSide], turned[kSide * kSide];
  const Vec by = hn::Set(F(), factor);
  for (int64_t j = 0; j < keys; j += 2 * kSide) {
    const int64_t some = std::min(2 * kSide, keys - j);
    unit::multiply<unit::Halves>(unit::Product<float>{
        .a = {reinterpret_cast<const uint32_t*>(k.data + j * k.row), k.row / 2},
        .b = {by_feature, kSide},
        .c = sums,
        .ldc = kSide,
        .m = some,
        .n = kSide,
        .K = words,
        .accumulate = false});
    for (int64_t i = 0; i < some; i += kSide) {
      TransposeSquare(sums + i * kSide, kSide, Unscaled(), turned, kSide);
      for (int64_t r = 0; r < rows; ++r) {
        hn::StoreU(hn::Mul(by, hn::LoadU(F(), turned + r * kSide)), F(), s.data + r * s.ld + j + i);
      }
    }
  }
  return keys;
}

// to[r] = Σ_j s[r][j]·v[j].
HWY_NOINLINE void WordValuesByUnit(DenseRows s, int64_t rows, const WordRows& v, int64_t Dv,
                                   DenseRows to) {
  constexpr int64_t kSide = unit::kSide;
  const int64_t ld = RoundUp(v.n, kUnitKeys) / 2;
  const Buffer<float> memory(kSide * (ld + Dv) + kUnitKeys / 2 * Dv);
  float* const sums = memory.data();
  auto* const weights = reinterpret_cast<uint32_t*>(sums + kSide * Dv);
  const DenseWords pairs{weights + kSide * ld, Dv};
  std::fill(weights + rows * ld, weights + kSide * ld, 0u);
  WordsOfRows(s, rows, v.n, ld, {weights, ld});
  for (int64_t j = 0; j < v.n; j += kUnitKeys) {
    const int64_t some = std::min(kUnitKeys, v.n - j);
    const Rows from{nullptr, v.row, 1, v.data + j * v.row, Number::bf16};
    PackValuePairs(from, some, Dv, kUnitKeys / 2, pairs);
    unit::multiply<unit::Halves>(unit::Product<float>{.a = {weights + j / 2, ld},
                                                      .b = {pairs.data, pairs.ld},
                                                      .c = sums,
                                                      .ldc = Dv,
                                                      .m = kSide,
                                                      .n = Dv,
                                                      .K = kUnitKeys / 2,
                                                      .accumulate = j > 0});
  }
  for (int64_t r = 0; r < rows; ++r) std::copy_n(sums + r * Dv, Dv, to.data + r * to.ld);
}

// Weights of R rows: floats, or words of those of keys 2j and 2j+1 where words are multiplied.
struct ValueWeights {
  const float* s;
  int64_t ld;
  const uint32_t* words = nullptr;
  int64_t ld_words = 0;
  ValueWeights From(int64_t r) const {
    return {s + r * ld, ld, words ? words + r * ld_words : nullptr, ld_words};
  }
};

// to[r] = Σ_j s[r][j]·v[j] for R rows and NV vectors of words from `word` on. Of rows to come
// `bytes` are fetched.
template <int R, int NV, bool kDots>
HWY_INLINE void WordValuesOf(const ValueWeights& w, const WordRows& v, int64_t word, int64_t bytes,
                             DenseRows to) {
  const F d;
  const U du;
  const int64_t ahead = RowsAhead(bytes);
  Vec sum[R][NV][2];
  HWY_UNROLL(4)
  for (int r = 0; r < R; ++r) {
    HWY_UNROLL(4)
    for (int i = 0; i < NV; ++i) sum[r][i][0] = sum[r][i][1] = hn::Zero(d);
  }
  // Two rows of words [a0,a1] and [b0,b1] become [a0,b0] and [a1,b1].
  for (int64_t j = 0; kDots && j < v.n; j += 2) {
    v.Fetch(j + ahead, bytes);
    v.Fetch(j + ahead + 1, bytes);
    HWY_UNROLL(4)
    for (int i = 0; i < NV; ++i) {
      const Words a = v.At(j, word + i * kLanes);
      const Words b = j + 1 < v.n ? v.At(j + 1, word + i * kLanes) : hn::Zero(du);
      const Words upper = hn::Set(du, 0xffff0000u);
      const Words first = hn::Or(hn::AndNot(upper, a), hn::ShiftLeft<16>(b));
      const Words second = hn::Or(hn::ShiftRight<16>(a), hn::And(upper, b));
      HWY_UNROLL(4)
      for (int r = 0; r < R; ++r) {
        const Words weights = hn::Set(du, w.words[r * w.ld_words + j / 2]);
        sum[r][i][0] = AddDots(sum[r][i][0], weights, first);
        sum[r][i][1] = AddDots(sum[r][i][1], weights, second);
      }
    }
  }
  for (int64_t j = 0; !kDots && j < v.n; ++j) {
    v.Fetch(j + ahead, bytes);
    HWY_UNROLL(4)
    for (int i = 0; i < NV; ++i) {
      const Words pair = v.At(j, word + i * kLanes);
      const Vec first = FirstOf(pair), second = SecondOf(pair);
      HWY_UNROLL(4)
      for (int r = 0; r < R; ++r) {
        const Vec weight = hn::Set(d, w.s[r * w.ld + j]);
        sum[r][i][0] = hn::MulAdd(weight, first, sum[r][i][0]);
        sum[r][i][1] = hn::MulAdd(weight, second, sum[r][i][1]);
      }
    }
  }
  HWY_UNROLL(4)
  for (int r = 0; r < R; ++r) {
    HWY_UNROLL(4)
    for (int i = 0; i < NV; ++i) {
      hn::StoreInterleaved2(sum[r][i][0], sum[r][i][1], d,
                            to.data + r * to.ld + 2 * (word + i * kLanes));
    }
  }
}

template <int R, bool kDots>
HWY_INLINE void WordValueColumns(const ValueWeights& w, const WordRows& v, int64_t words,
                                 bool fetch, DenseRows to) {
  constexpr int kVecs = (kManyRegisters ? 8 : 4) / R;  // 16 or 8 sums
  const auto bytes = [&](int64_t at) { return fetch && at == 0 ? words * kFloat : 0; };
  int64_t at = 0;
  for (; at + kVecs * kLanes <= words; at += kVecs * kLanes) {
    WordValuesOf<R, kVecs, kDots>(w, v, at, bytes(at), to);
  }
  for (; at < words; at += kLanes) WordValuesOf<R, 1, kDots>(w, v, at, bytes(at), to);
}

template <bool kDots>
HWY_INLINE void WordValueRows(const ValueWeights& w, int64_t rows, const WordRows& v, int64_t words,
                              DenseRows to) {
  const auto from = [&](int64_t r) { return DenseRows{to.data + r * to.ld, to.ld}; };
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) WordValueColumns<4, kDots>(w.From(r), v, words, r == 0, from(r));
  for (; r + 2 <= rows; r += 2) WordValueColumns<2, kDots>(w.From(r), v, words, r == 0, from(r));
  if (r < rows) WordValueColumns<1, kDots>(w.From(r), v, words, r == 0, from(r));
}

// to[r] = Σ_j s[r][j]·v[j]; weights after the last key, up to a whole vector, are 0.
HWY_NOINLINE void WordValues(DenseRows s, int64_t rows, const WordRows& v, int64_t Dv, bool dots,
                             DenseRows to) {
  ValueWeights w{s.data, s.ld};
  if (!dots) return WordValueRows<false>(w, rows, v, Dv / 2, to);
  const int64_t ld = RoundUp(v.n, 2 * kLanes) / 2;
  const Buffer<float> words(rows * ld);
  auto* const data = reinterpret_cast<uint32_t*>(words.data());
  WordsOfRows(s, rows, RoundUp(v.n, kLanes), 0, {data, ld});
  w.words = data;
  w.ld_words = ld;
  WordValueRows<true>(w, rows, v, Dv / 2, to);
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_ATTENTION_DECODE_WORDS_INL_H_
