// Transposes of squares in registers.
#if defined(FOVEA_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_TRANSPOSE_INL_H_
#undef FOVEA_TRANSPOSE_INL_H_
#else
#define FOVEA_TRANSPOSE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "kernels/load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct Unscaled {};  // the bits as they are

// `from` is a pointer, or anything that moves as one and that Floats() reads.
// Row i times its factor: one for all rows, a function of the row, or none.
template <class D>
HWY_INLINE hn::Vec<D> Scaled(D d, hn::Vec<D> v, float factor, int64_t) {
  return hn::Mul(v, hn::Set(d, factor));
}
template <class D>
HWY_INLINE hn::Vec<D> Scaled(D, hn::Vec<D> v, Unscaled, int64_t) {
  return v;
}
template <class D, class ByRow>
HWY_INLINE hn::Vec<D> Scaled(D d, hn::Vec<D> v, const ByRow& factor, int64_t i) {
  return hn::Mul(v, hn::Set(d, factor(i)));
}

// to[j·to_row + i] = factor·from[i·row + j] for i, j < 4.
template <class From, class Factor>
HWY_INLINE void Transpose4x4(From from, int64_t row, const Factor& factor, float* to,
                             int64_t to_row) {
#if HWY_TARGET == HWY_SCALAR
  const hn::CappedTag<float, 1> d;
  for (int64_t i = 0; i < 16; ++i) {
    const auto x = Floats(d, from + i / 4 * row + i % 4);
    to[i % 4 * to_row + i / 4] = hn::GetLane(Scaled(d, x, factor, i / 4));
  }
#else
  const hn::FixedTag<float, 4> d;
  const auto load = [&](int64_t i)
                        HWY_ATTR { return Scaled(d, Floats(d, from + i * row), factor, i); };
  const auto r0 = load(0), r1 = load(1), r2 = load(2), r3 = load(3);
  const auto t0 = hn::InterleaveLower(d, r0, r1), t1 = hn::InterleaveUpper(d, r0, r1);
  const auto t2 = hn::InterleaveLower(d, r2, r3), t3 = hn::InterleaveUpper(d, r2, r3);
  hn::StoreU(hn::ConcatLowerLower(d, t2, t0), d, to);
  hn::StoreU(hn::ConcatUpperUpper(d, t2, t0), d, to + to_row);
  hn::StoreU(hn::ConcatLowerLower(d, t3, t1), d, to + 2 * to_row);
  hn::StoreU(hn::ConcatUpperUpper(d, t3, t1), d, to + 3 * to_row);
#endif
}

// The same for the largest square that registers hold, kSquare.
#undef FOVEA_SQUARE
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
#define FOVEA_SQUARE 16
// 4×4 inside 128-bit blocks, then 4×4 of the blocks.
template <class From, class Factor>
HWY_INLINE void TransposeSquare(From from, int64_t row, const Factor& factor, float* to,
                                int64_t to_row) {
  const hn::FixedTag<float, 16> d;
  const hn::RepartitionToWide<hn::RebindToSigned<decltype(d)>> d64;
  using V = hn::Vec<decltype(d)>;
  const auto load = [&](int64_t i)
                        HWY_ATTR { return Scaled(d, Floats(d, from + i * row), factor, i); };
  V out[4][4];  // [i][g]: block b holds column 4b+i of rows 4g … 4g+3
  HWY_UNROLL(4)
  for (int g = 0; g < 4; ++g) {
    const V r0 = load(4 * g), r1 = load(4 * g + 1), r2 = load(4 * g + 2), r3 = load(4 * g + 3);
    const auto t0 = hn::BitCast(d64, hn::InterleaveLower(d, r0, r1));
    const auto t1 = hn::BitCast(d64, hn::InterleaveUpper(d, r0, r1));
    const auto t2 = hn::BitCast(d64, hn::InterleaveLower(d, r2, r3));
    const auto t3 = hn::BitCast(d64, hn::InterleaveUpper(d, r2, r3));
    out[0][g] = hn::BitCast(d, hn::InterleaveLower(d64, t0, t2));
    out[1][g] = hn::BitCast(d, hn::InterleaveUpper(d64, t0, t2));
    out[2][g] = hn::BitCast(d, hn::InterleaveLower(d64, t1, t3));
    out[3][g] = hn::BitCast(d, hn::InterleaveUpper(d64, t1, t3));
  }
  HWY_UNROLL(4)
  for (int i = 0; i < 4; ++i) {
    const V* o = out[i];
    const V x0 = hn::ConcatLowerLower(d, o[2], o[0]), x1 = hn::ConcatUpperUpper(d, o[2], o[0]);
    const V y0 = hn::ConcatLowerLower(d, o[3], o[1]), y1 = hn::ConcatUpperUpper(d, o[3], o[1]);
    hn::StoreU(hn::OddEvenBlocks(hn::SwapAdjacentBlocks(y0), x0), d, to + i * to_row);
    hn::StoreU(hn::OddEvenBlocks(y0, hn::SwapAdjacentBlocks(x0)), d, to + (4 + i) * to_row);
    hn::StoreU(hn::OddEvenBlocks(hn::SwapAdjacentBlocks(y1), x1), d, to + (8 + i) * to_row);
    hn::StoreU(hn::OddEvenBlocks(y1, hn::SwapAdjacentBlocks(x1)), d, to + (12 + i) * to_row);
  }
}
#else
#define FOVEA_SQUARE 4
template <class From, class Factor>
HWY_INLINE void TransposeSquare(From from, int64_t row, const Factor& factor, float* to,
                                int64_t to_row) {
  Transpose4x4(from, row, factor, to, to_row);
}
#endif
constexpr int64_t kSquare = FOVEA_SQUARE;

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_TRANSPOSE_INL_H_
