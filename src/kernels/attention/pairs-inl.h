// Products with bf16 numbers, two of them to a word of 32 bits: those that are summed together are
// in one word, so that an instruction adds both to a lane, or a shift and a mask make floats of
// them.
#if defined(FOVEA_ATTENTION_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_ATTENTION_PAIRS_INL_H_
#undef FOVEA_ATTENTION_PAIRS_INL_H_
#else
#define FOVEA_ATTENTION_PAIRS_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "kernels/attention/pack-inl.h"
#include "kernels/attention/simd-inl.h"
#include "kernels/dots-inl.h"
#include "kernels/matrix-unit.h"
#include "kernels/tile-inl.h"
#include "kernels/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

using Words = hn::Vec<U>;

// C[m×n] (+)= A[m×2K]·B[2K×n]: B has words of rows 2k and 2k+1. A's are floats, 2 to a step; with
// ByHalfWords they are words too.
using PairProduct = ProductBy<ByPairs>;

// The same where an element of A that is 0 contributes nothing, whatever B holds there.
HWY_NOINLINE void PairsSkippingZeros(const PairProduct& x) {
  const F d;
  for (int64_t i = 0; i < x.m; ++i) {
    float* out = x.c + i * x.ldc;
    if (!x.accumulate) FillRow(out, 0, RoundUp(x.n, kLanes), 0.0f);
    for (int64_t k = 0; k < 2 * x.K; ++k) {
      const float left = x.a.data[i * x.a.row + k];
      if (left == 0.0f) continue;
      for (int64_t j = 0; j < x.n; j += kLanes) {
        const Words pair = hn::LoadU(U(), x.b + k / 2 * x.ldb + j);
        const Vec right = k % 2 == 0 ? FirstOf(pair) : SecondOf(pair);
        hn::StoreU(hn::MulAdd(hn::Set(d, left), right, hn::LoadU(d, out + j)), d, out + j);
      }
    }
  }
}

// Words of features 2d and 2d+1, `width` of them, of one row.
HWY_INLINE void FeaturePairs(const uint16_t* row, int64_t c, int64_t width, uint32_t* to) {
  for (int64_t d = 0; d < width; d += 2) {
    const uint32_t second = d + 1 < width ? row[(d + 1) * c] : 0;
    to[d / 2] = row[d * c] | second << 16;
  }
}

// Whether rows of 16 bits are words of neighbours as they are.
inline bool WordsInPlace(const Rows& from, int64_t width) {
  return from.c == 1 && width % 2 == 0 && from.row % 2 == 0 &&
         reinterpret_cast<uintptr_t>(from.halves) % sizeof(uint32_t) == 0;
}

// Keys [n][width] → panels [panel][ld][64] of words; whole vectors, and zeros below the features.
HWY_NOINLINE void PackKeyPairs(Rows from, int64_t n, int64_t width, int64_t ld, uint32_t* to) {
  const int64_t words = PanelRows(width) / 2;
  const bool in_place = WordsInPlace(from, width);
  HWY_ALIGN uint32_t block[16 * 16];
  for (int64_t j = 0; j < n; j += kPanelKeys, to += ld * kPanelKeys) {
    const int64_t m = std::min(kPanelKeys, n - j);
    std::fill(to + words * kPanelKeys, to + ld * kPanelKeys, 0u);
    for (int64_t i = 0; i < m; i += 16) {
      const int64_t keys = std::min<int64_t>(16, m - i);
      const uint16_t* first = from.halves + (j + i) * from.row;
      for (int64_t d = 0; d < words; d += 16) {
        const int64_t some = std::min<int64_t>(16, words - d);
        Rows rows{reinterpret_cast<const float*>(first) + d, from.row / 2, 1};
        if (!in_place) {
          for (int64_t r = 0; r < keys; ++r) {
            FeaturePairs(first + r * from.row + 2 * d * from.c, from.c,
                         std::min<int64_t>(2 * some, width - 2 * d), block + r * 16);
          }
          rows = {reinterpret_cast<const float*>(block), 16, 1};
        }
        PackBlock(rows, keys, some, Unscaled(), reinterpret_cast<float*>(to) + d * kPanelKeys + i);
      }
    }
  }
}

// Rows of words to write, `ld` apart.
struct DenseWords {
  uint32_t* data;
  int64_t ld;
};

// Values [n][width] → [n/2][ld] words of rows 2j and 2j+1, filled up with zeros; so are rows of
// words from there up to `words` of them.
HWY_NOINLINE void PackValuePairs(Rows from, int64_t n, int64_t width, int64_t words,
                                 DenseWords rows) {
  const int64_t ld = rows.ld;
  uint32_t* to = rows.data;
  std::fill(to + (n + 1) / 2 * ld, to + std::max(words, (n + 1) / 2) * ld, 0u);
  const U d;
  const hn::Rebind<uint16_t, U> d16;
  for (int64_t j = 0; j < n; j += 2, to += ld) {
    const uint16_t* a = from.halves + j * from.row;
    const uint16_t* b = j + 1 < n ? a + from.row : nullptr;
    int64_t k = 0;
    for (; from.c == 1 && k + kLanes <= width; k += kLanes) {
      const Words first = hn::PromoteTo(d, hn::LoadU(d16, a + k));
      const Words second = b ? hn::PromoteTo(d, hn::LoadU(d16, b + k)) : hn::Zero(d);
      hn::StoreU(hn::Or(first, hn::ShiftLeft<16>(second)), d, to + k);
    }
    for (; k < width; ++k) {
      to[k] = a[k * from.c] | static_cast<uint32_t>(b ? b[k * from.c] : 0) << 16;
    }
    for (; k < ld; ++k) to[k] = 0;
  }
}

// Rows of n floats as words of neighbours; behind them zeros up to `words` of them.
HWY_NOINLINE void WordsOfRows(DenseRows from, int64_t rows, int64_t n, int64_t words,
                              DenseWords to) {
  const F d;
  const U du;
  for (int64_t i = 0; i < rows; ++i) {
    const float* row = from.data + i * from.ld;
    uint32_t* out = to.data + i * to.ld;
    int64_t j = 0;
    for (; j + 2 * kLanes <= n; j += 2 * kLanes) {
      hn::StoreU(ToHalves(hn::LoadU(d, row + j), hn::LoadU(d, row + j + kLanes)), du, out + j / 2);
    }
    if (j < n) {
      const int64_t rest = n - j;
      const Vec first = FirstFloats(d, row + j, std::min(rest, kLanes));
      const Vec second =
          rest > kLanes ? FirstFloats(d, row + j + kLanes, rest - kLanes) : hn::Zero(d);
      HWY_ALIGN uint32_t last[kLanes];
      hn::Store(ToHalves(first, second), du, last);
      std::copy_n(last, (rest + 1) / 2, out + j / 2);
    }
    std::fill(out + (n + 1) / 2, out + std::max(words, (n + 1) / 2), 0u);
  }
}

// Two rows of n floats as words of the same column, whole vectors; no second one: zeros.
HWY_INLINE void PairOfRows(const float* first, const float* second, int64_t n, uint32_t* to) {
  const F d;
  for (int64_t j = 0; j < n; j += kLanes) {
    const Vec other = second ? hn::LoadU(d, second + j) : hn::Zero(d);
    hn::StoreU(ToPairs(hn::LoadU(d, first + j), other), U(), to + j);
  }
}

// Columns of `rows` rows of floats, n of them, whole vectors, as words of rows 2i and 2i+1:
// to[column][i]; zeros up to whole vectors.
HWY_NOINLINE void WordsOfColumns(DenseRows from, int64_t rows, int64_t n, DenseWords to) {
  HWY_ALIGN uint32_t square[kLanes * kLanes];
  for (int64_t i = 0; i < rows; i += 2 * kLanes) {
    for (int64_t j = 0; j < n; j += kLanes) {
      for (int64_t w = 0; w < kLanes; ++w) {
        const int64_t row = i + 2 * w;
        const float* first = from.data + row * from.ld + j;
        if (row < rows) {
          PairOfRows(first, row + 1 < rows ? first + from.ld : nullptr, kLanes,
                     square + w * kLanes);
        } else {
          hn::Store(hn::Zero(U()), U(), square + w * kLanes);
        }
      }
      for (int64_t w = 0; w + kSquare <= kLanes; w += kSquare) {
        for (int64_t k = 0; k < kLanes; k += kSquare) {
          TransposeSquare(reinterpret_cast<const float*>(square) + w * kLanes + k, kLanes,
                          Unscaled(),
                          reinterpret_cast<float*>(to.data + (j + k) * to.ld) + i / 2 + w, to.ld);
        }
      }
    }
  }
}

// Words of so many features, as the matrix unit takes them.
inline int64_t UnitWords(int64_t width) { return RoundUp(PanelRows(width) / 2, unit::kSide); }

// C of 16 rows, or of 32, …, where a's rows, b's columns and K are filled up to as many.
HWY_INLINE void MatMulByUnit(const ProductBy<ByHalfWords>& x) {
  unit::multiply<unit::Halves>(unit::Product<float>{.a = {x.a.data, x.a.row},
                                                    .b = {x.b, x.ldb},
                                                    .c = x.c,
                                                    .ldc = x.ldc,
                                                    .m = RoundUp(x.m, unit::kSide),
                                                    .n = RoundUp(x.n, unit::kSide),
                                                    .K = RoundUp(x.K, unit::kSide),
                                                    .accumulate = x.accumulate});
  if (x.factor == 1.0f) return;
  const Vec factor = hn::Set(F(), x.factor);
  for (int64_t i = 0; i < x.m; ++i) {
    for (int64_t j = 0; j < x.n; j += kLanes) {
      float* c = x.c + i * x.ldc + j;
      hn::StoreU(hn::Mul(hn::LoadU(F(), c), factor), F(), c);
    }
  }
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_ATTENTION_PAIRS_INL_H_
