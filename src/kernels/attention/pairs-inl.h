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
#include "kernels/tile-inl.h"

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

// Keys [n][width] → panels [panel][width/2][64] of words; whole vectors.
HWY_NOINLINE void PackKeyPairs(Rows from, int64_t n, int64_t width, uint32_t* to) {
  const int64_t words = PanelRows(width) / 2;
  const bool in_place = WordsInPlace(from, width);
  HWY_ALIGN uint32_t block[16 * 16];
  for (int64_t j = 0; j < n; j += kPanelKeys, to += words * kPanelKeys) {
    const int64_t m = std::min(kPanelKeys, n - j);
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

// Values [n][width] → [n/2][ld] words of rows 2j and 2j+1, filled up with zeros.
HWY_NOINLINE void PackValuePairs(Rows from, int64_t n, int64_t width, int64_t ld, uint32_t* to) {
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

// Rows of floats as words of neighbours, n of them, whole vectors.
HWY_NOINLINE void WordsOfRows(DenseRows from, int64_t rows, int64_t n, uint32_t* to, int64_t ld) {
  const hn::Rebind<uint16_t, U> d16;
  for (int64_t i = 0; i < rows; ++i) {
    auto* halves = reinterpret_cast<uint16_t*>(to + i * ld);
    for (int64_t j = 0; j < n; j += kLanes) {
      hn::StoreU(hn::TruncateTo(d16, NearestBf16(hn::LoadU(F(), from.data + i * from.ld + j))), d16,
                 halves + j);
    }
  }
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_ATTENTION_PAIRS_INL_H_
