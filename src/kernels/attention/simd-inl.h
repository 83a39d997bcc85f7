// Arithmetic shared by the attention kernels: random bits, sums of a row, and their matrix products
// by the one tile.
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
#include <type_traits>

#include "core/random.h"
#include "kernels/load-inl.h"
#include "kernels/math-inl.h"
#include "kernels/rounding.h"
#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

using I = hn::RebindToSigned<F>;
using U = hn::RebindToUnsigned<F>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kPanelKeys = 64;  // side by side in a packed panel; a multiple of every kLanes
// A tile has 4 rows of 4 vectors or 8 of 2 where there are 32 registers, 6 of 2 where there are 16:
// at K = 64 these reach 98 and 96 % of the peak, and the 6 of 4 of larger products only 94. Two
// tiles of rows share a range of keys, or one of 8.
constexpr int kTileVecs = kManyRegisters ? 4 : 2;
constexpr int TileRows(int vecs) { return !kManyRegisters ? 6 : vecs <= 2 ? 8 : 4; }
constexpr int64_t kGroupRows = kManyRegisters ? 8 : 12;

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
  const Vec e =
      hn::IfThenElse(hn::Lt(t, hn::Set(d, 0.01f)), series, hn::Neg(FastLogOfNormal(d, rest)));
  return hn::Neg(FastLogOfNormal(d, e));
}

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
#if FOVEA_MASKED
  if (j < end) hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(end - j)), d, to + j);
#else  // nothing behind `end` is read and written back: it may be another thread's
  for (; j < end; ++j) to[j] = value;
#endif
}

// ---- C[m×n] (+)= A[m×K]·B[K×n] -----------------------------------------------------------------
// Lanes run along n. A is read one element at a time, so it may have any strides; rows of B and C
// are read and written up to n rounded up to a vector.

// K steps of what By multiplies. Where both sides are words neither can hold a factor: C becomes
// factor times the sums, and 1 goes with adding to what is there.
template <class By>
struct ProductBy {
  Left<typename By::A> a;
  const typename By::B* b;
  int64_t ldb;
  float* c;
  int64_t ldc;
  int64_t m, n, K;
  float factor = 1.0f;
  bool accumulate;
};
using Product = ProductBy<ByFloats>;

// The first MR rows and NV vectors of columns.
template <int MR, int NV, class By>
HWY_INLINE void Tile(const ProductBy<By>& x) {
  const F d;
  const int64_t ldc = x.ldc;
  float* HWY_RESTRICT c = x.c;
  Vec sum[MR][NV];
  EachSum<MR, NV>([&](int i, int j) HWY_ATTR {
    sum[i][j] = x.accumulate ? hn::LoadU(d, c + i * ldc + j * kLanes) : hn::Zero(d);
  });
  AddProducts<By>(x.a, {x.b, x.ldb}, x.K, sum);
  if constexpr (std::is_same_v<By, ByHalfWords>) {
    const Vec factor = hn::Set(d, x.factor);
    EachSum<MR, NV>([&](int i, int j) HWY_ATTR { sum[i][j] = hn::Mul(sum[i][j], factor); });
  }
  EachSum<MR, NV>([&](int i, int j)
                      HWY_ATTR { hn::StoreU(sum[i][j], d, c + i * ldc + j * kLanes); });
}

// All rows of NV vectors of columns from `column` on.
template <int NV, class By>
HWY_NOINLINE void TileColumn(const ProductBy<By>& all, int64_t column) {
  constexpr int kRows = TileRows(NV);
  ProductBy<By> x = all;  // its own, so that what is written cannot be a part of it
  x.b += column, x.c += column;
  const auto done = [&x](int64_t rows) {
    x.m -= rows, x.a.data += rows * x.a.row, x.c += rows * x.ldc;
  };
  // 7 and 8 rows are two tiles of about 4, not 6 and a rest.
  for (; x.m >= kRows && (kRows != 6 || x.m == 6 || x.m > 8); done(kRows)) Tile<kRows, NV>(x);
  for (; x.m >= 4; done(4)) Tile<4, NV>(x);
  if (x.m == 3) Tile<3, NV>(x);
  if (x.m == 2) Tile<2, NV>(x);
  if (x.m == 1) Tile<1, NV>(x);
}

template <class By>
HWY_NOINLINE void MatMulOnce(const ProductBy<By>& x) {
  int64_t vecs = (x.n + kLanes - 1) / kLanes, column = 0;
  for (; vecs >= kTileVecs; vecs -= kTileVecs, column += kTileVecs * kLanes) {
    TileColumn<kTileVecs>(x, column);
  }
  if constexpr (kTileVecs > 2) {
    if (vecs == 3) TileColumn<3>(x, column);
    if (vecs == 2) TileColumn<2>(x, column);
  }
  if (vecs == 1) TileColumn<1>(x, column);
}

// Wide rows of B are read 8 at a time from end to end: as many streams as a core follows. Down
// whole columns each step would be on another page.
constexpr int64_t kWide = 256, kWideRows = 8;

HWY_INLINE void MatMul(const Product& x) {
  if (x.n <= kWide || x.K <= kWideRows) return MatMulOnce(x);
  Product part = x;
  for (int64_t k = 0; k < x.K; k += kWideRows) {
    part.a.data = x.a.data + k * x.a.col;
    part.b = x.b + k * x.ldb;
    part.K = std::min(kWideRows, x.K - k);
    MatMulOnce(part);
    part.accumulate = true;
  }
}

// The same product where an element of A that is 0 contributes nothing, whatever B holds there:
// for tiles that a mask cuts through while the data holds Inf or NaN.
HWY_NOINLINE void MatMulSkippingZeros(const Product& x) {
  const F d;
  for (int64_t i = 0; i < x.m; ++i) {
    float* out = x.c + i * x.ldc;
    if (!x.accumulate) FillRow(out, 0, RoundUp(x.n, kLanes), 0.0f);
    for (int64_t k = 0; k < x.K; ++k) {
      const float left = x.a.data[i * x.a.row + k * x.a.col];
      if (left == 0.0f) continue;
      for (int64_t j = 0; j < x.n; j += kLanes) {
        const Vec right = hn::LoadU(d, x.b + k * x.ldb + j);
        hn::StoreU(hn::MulAdd(hn::Set(d, left), right, hn::LoadU(d, out + j)), d, out + j);
      }
    }
  }
}

HWY_INLINE void MatMul(const Product& x, bool skips_zeros) {
  if (skips_zeros) return MatMulSkippingZeros(x);
  MatMul(x);
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_ATTENTION_SIMD_INL_H_
