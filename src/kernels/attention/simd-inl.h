// Arithmetic shared by the attention kernels: exponentials, row sums, and one matrix product.
#if defined(FOVEA_ATTENTION_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_ATTENTION_SIMD_INL_H_
#undef FOVEA_ATTENTION_SIMD_INL_H_
#else
#define FOVEA_ATTENTION_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/random.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F = hn::ScalableTag<float>;
using I = hn::RebindToSigned<F>;
using U = hn::RebindToUnsigned<F>;
using Vec = hn::Vec<F>;

constexpr int64_t kLanes = hn::MaxLanes(F());
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int64_t kPanel = 64;  // keys side by side in a packed panel; a multiple of every kLanes
constexpr int64_t kGroup = 8;   // query rows that share a range of keys
// A register tile has 4 rows of 4 vectors or 8 of 2 where there are 32 registers, else 4 of 2.
constexpr int kTileVecs = HWY_TARGET <= HWY_AVX3 ? 4 : 2;
constexpr int TileRows(int vecs) { return HWY_TARGET <= HWY_AVX3 && vecs <= 2 ? 8 : 4; }

constexpr int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
constexpr int64_t RoundDown(int64_t n, int64_t to) { return n / to * to; }

// e^x for −∞ ≤ x ≤ 88; below −87 exactly 0, NaN stays NaN. Relative error < 2e-7.
// 2^n from the integer part, a degree-5 polynomial for 2^f, |f| ≤ ½.
HWY_INLINE Vec Exp(Vec x) {
  const F d;
  const I di;
  const Vec magic = hn::Set(d, 12582912.0f);  // 1.5·2²³: adding it rounds to an integer
  const Vec log2e = hn::Set(d, 1.44269504088896341f);
  const Vec rounded = hn::MulAdd(x, log2e, magic);
  const Vec f = hn::MulSub(x, log2e, hn::Sub(rounded, magic));
  Vec p = hn::Set(d, 1.32647250e-3f);
  p = hn::MulAdd(p, f, hn::Set(d, 9.67151299e-3f));
  p = hn::MulAdd(p, f, hn::Set(d, 5.55073358e-2f));
  p = hn::MulAdd(p, f, hn::Set(d, 2.40222424e-1f));
  p = hn::MulAdd(p, f, hn::Set(d, 6.93147004e-1f));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0f));
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di, rounded));
  const Vec y = hn::BitCast(d, hn::Add(hn::BitCast(di, p), exponent));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.0f)), y);
}

HWY_INLINE Vec ExpClamped(Vec x) { return Exp(hn::Min(x, hn::Set(F(), 88.0f))); }

// log x for positive normal x; relative error < 3e-7 away from 1, absolute near it.
HWY_INLINE Vec Log(Vec x) {
  const F d;
  const I di;
  // x = 2^e·m with m in [√½, √2): the offset moves the split from 1 to √½.
  const auto bits = hn::Sub(hn::BitCast(di, x), hn::Set(di, 0x3f3504f3));
  const Vec e = hn::ConvertTo(d, hn::ShiftRight<23>(bits));
  const auto fraction = hn::Add(hn::And(bits, hn::Set(di, 0x7fffff)), hn::Set(di, 0x3f3504f3));
  const Vec m = hn::Sub(hn::BitCast(d, fraction), hn::Set(d, 1.0f));
  // log(1+m) = 2·atanh(z), z = m/(2+m); |z| ≤ 0.172.
  const Vec z = hn::Div(m, hn::Add(m, hn::Set(d, 2.0f)));
  const Vec zz = hn::Mul(z, z);
  Vec p = hn::Set(d, 2.0f / 9);
  p = hn::MulAdd(p, zz, hn::Set(d, 2.0f / 7));
  p = hn::MulAdd(p, zz, hn::Set(d, 2.0f / 5));
  p = hn::MulAdd(p, zz, hn::Set(d, 2.0f / 3));
  p = hn::MulAdd(hn::Mul(p, zz), z, hn::Add(z, z));
  return hn::MulAdd(e, hn::Set(d, 0.693147180559945f), p);
}

// bits32(key, j) of core/random.h for lanes j, j+1, …
HWY_INLINE hn::Vec<U> Mix32(hn::Vec<U> x) {
  const U d;
  x = hn::Xor(x, hn::ShiftRight<16>(x));
  x = hn::Mul(x, hn::Set(d, 0x7feb352du));
  x = hn::Xor(x, hn::ShiftRight<15>(x));
  x = hn::Mul(x, hn::Set(d, 0x846ca68bu));
  return hn::Xor(x, hn::ShiftRight<16>(x));
}
HWY_INLINE hn::Vec<U> Bits32(RandomKey key, int64_t j) {
  const U d;
  const auto at = hn::Iota(d, static_cast<uint32_t>(j));
  return Mix32(hn::Add(Mix32(hn::Xor(at, hn::Set(d, key.a))), hn::Set(d, key.b)));
}

// t in (0,1) from 32 bits, then −log(−log1p(−t)). Small t, which win, keep full precision.
HWY_INLINE Vec Gumbel(RandomKey key, int64_t j) {
  const F d;
  const I di;
  const auto bits = Bits32(key, j);
  // Unsigned to float in two halves: both exact, one rounding in the sum.
  const Vec high = hn::ConvertTo(d, hn::BitCast(di, hn::ShiftRight<16>(bits)));
  const Vec low = hn::ConvertTo(d, hn::BitCast(di, hn::And(bits, hn::Set(U(), 0xffffu))));
  const Vec t = hn::Add(hn::Mul(high, hn::Set(d, 0x1p-16f)),
                        hn::Mul(hn::Add(low, hn::Set(d, 0.5f)), hn::Set(d, 0x1p-32f)));
  const Vec series =
      hn::MulAdd(hn::Mul(t, t), hn::MulAdd(t, hn::Set(d, 1.0f / 3), hn::Set(d, 0.5f)), t);
  const Vec rest = hn::Max(hn::Sub(hn::Set(d, 1.0f), t), hn::Set(d, 0x1p-33f));
  const Vec e = hn::IfThenElse(hn::Lt(t, hn::Set(d, 0.01f)), series, hn::Neg(Log(rest)));
  return hn::Neg(Log(e));
}

HWY_INLINE float SumOf(Vec v) { return hn::GetLane(hn::SumOfLanes(F(), v)); }
HWY_INLINE float MaxOf(Vec v) {
#if HWY_TARGET == HWY_EMU128  // whose MaxOfLanes knows nothing below the lowest finite number
  HWY_ALIGN float lanes[kLanes];
  hn::Store(v, F(), lanes);
  return *std::max_element(lanes, lanes + kLanes);
#else
  return hn::GetLane(hn::MaxOfLanes(F(), v));
#endif
}

HWY_INLINE void FillRow(float* to, int64_t from, int64_t end, float value) {
  const F d;
  const Vec v = hn::Set(d, value);
  int64_t j = from;
  for (; j + kLanes <= end; j += kLanes) hn::StoreU(v, d, to + j);
  if (j < end) hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(end - j)), d, to + j);
}

// ---- C[m×n] (+)= A[m×K]·B[K×n] -----------------------------------------------------------------
// Lanes run along n. A is read one element at a time, so it may have any strides; rows of B and C
// are read and written up to n rounded up to a vector.

struct Left {
  const float* data;
  int64_t row, k;  // strides
};

template <int MR, int NV>
HWY_INLINE void Tile(Left a, const float* HWY_RESTRICT b, int64_t ldb, float* HWY_RESTRICT c,
                     int64_t ldc, int64_t K, bool accumulate) {
  const F d;
  Vec sum[MR][NV];
  HWY_UNROLL(8)
  for (int i = 0; i < MR; ++i) {
    HWY_UNROLL(4)
    for (int j = 0; j < NV; ++j) {
      sum[i][j] = accumulate ? hn::LoadU(d, c + i * ldc + j * kLanes) : hn::Zero(d);
    }
  }
  const float* HWY_RESTRICT left = a.data;
  for (int64_t k = 0; k < K; ++k, left += a.k, b += ldb) {
    Vec right[NV];
    HWY_UNROLL(4)
    for (int j = 0; j < NV; ++j) right[j] = hn::LoadU(d, b + j * kLanes);
    HWY_UNROLL(8)
    for (int i = 0; i < MR; ++i) {
      const Vec x = hn::Set(d, left[i * a.row]);
      HWY_UNROLL(4)
      for (int j = 0; j < NV; ++j) sum[i][j] = hn::MulAdd(x, right[j], sum[i][j]);
    }
  }
  HWY_UNROLL(8)
  for (int i = 0; i < MR; ++i) {
    HWY_UNROLL(4)
    for (int j = 0; j < NV; ++j) hn::StoreU(sum[i][j], d, c + i * ldc + j * kLanes);
  }
}

template <int NV>
HWY_NOINLINE void TileColumn(Left a, const float* b, int64_t ldb, float* c, int64_t ldc, int64_t m,
                             int64_t K, bool accumulate) {
  constexpr int kRows = TileRows(NV);
  for (; m >= kRows; m -= kRows, a.data += kRows * a.row, c += kRows * ldc) {
    Tile<kRows, NV>(a, b, ldb, c, ldc, K, accumulate);
  }
  if (m >= 4) {
    Tile<4, NV>(a, b, ldb, c, ldc, K, accumulate);
    m -= 4, a.data += 4 * a.row, c += 4 * ldc;
  }
  if (m == 3) Tile<3, NV>(a, b, ldb, c, ldc, K, accumulate);
  if (m == 2) Tile<2, NV>(a, b, ldb, c, ldc, K, accumulate);
  if (m == 1) Tile<1, NV>(a, b, ldb, c, ldc, K, accumulate);
}

HWY_NOINLINE void MatMulOnce(Left a, const float* b, int64_t ldb, float* c, int64_t ldc, int64_t m,
                             int64_t n, int64_t K, bool accumulate) {
  int64_t vecs = (n + kLanes - 1) / kLanes;
  for (; vecs >= kTileVecs; vecs -= kTileVecs, b += kTileVecs * kLanes, c += kTileVecs * kLanes) {
    TileColumn<kTileVecs>(a, b, ldb, c, ldc, m, K, accumulate);
  }
  if constexpr (kTileVecs > 2) {
    if (vecs == 3) TileColumn<3>(a, b, ldb, c, ldc, m, K, accumulate);
    if (vecs == 2) TileColumn<2>(a, b, ldb, c, ldc, m, K, accumulate);
  }
  if (vecs == 1) TileColumn<1>(a, b, ldb, c, ldc, m, K, accumulate);
}

// Wide rows of B are read 8 at a time from end to end: as many streams as a core follows. Down
// whole columns each step would be on another page.
constexpr int64_t kWide = 256, kWideRows = 8;

HWY_INLINE void MatMul(Left a, const float* b, int64_t ldb, float* c, int64_t ldc, int64_t m,
                       int64_t n, int64_t K, bool accumulate) {
  for (; n > kWide && K > kWideRows; K -= kWideRows, accumulate = true) {
    MatMulOnce(a, b, ldb, c, ldc, m, n, kWideRows, accumulate);
    a.data += kWideRows * a.k;
    b += kWideRows * ldb;
  }
  MatMulOnce(a, b, ldb, c, ldc, m, n, K, accumulate);
}

// The same product where an element of A that is 0 contributes nothing, whatever B holds there:
// for tiles that a mask cuts through while the data holds Inf or NaN.
HWY_NOINLINE void MatMulSkippingZeros(Left a, const float* b, int64_t ldb, float* c, int64_t ldc,
                                      int64_t m, int64_t n, int64_t K, bool accumulate) {
  const F d;
  for (int64_t i = 0; i < m; ++i) {
    float* out = c + i * ldc;
    if (!accumulate) FillRow(out, 0, RoundUp(n, kLanes), 0.0f);
    for (int64_t k = 0; k < K; ++k) {
      const float x = a.data[i * a.row + k * a.k];
      if (x == 0.0f) continue;
      for (int64_t j = 0; j < n; j += kLanes) {
        const Vec right = hn::LoadU(d, b + k * ldb + j);
        hn::StoreU(hn::MulAdd(hn::Set(d, x), right, hn::LoadU(d, out + j)), d, out + j);
      }
    }
  }
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_ATTENTION_SIMD_INL_H_
