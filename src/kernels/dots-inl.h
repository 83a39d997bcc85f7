// Narrow numbers, two of 16 bits or four of 8 to a word of 32: the instructions that add all
// products of a word to a lane. Highway 1.0 has no names for them, and its targets do not allow the
// compilers' own.
#if defined(FOVEA_DOTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_DOTS_INL_H_
#undef FOVEA_DOTS_INL_H_
#else
#define FOVEA_DOTS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using DotSums = hn::Vec<hn::ScalableTag<float>>;
using DotWords = hn::Vec<hn::ScalableTag<uint32_t>>;
using DotInts = hn::Vec<hn::ScalableTag<int32_t>>;

// Whether the processor has them.
#undef FOVEA_DOTS
#define FOVEA_DOTS (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3)
#if FOVEA_DOTS
HWY_INLINE bool HasBf16Dots() { return __builtin_cpu_supports("avx512bf16") != 0; }
HWY_INLINE bool HasByteDots() { return __builtin_cpu_supports("avx512vnni") != 0; }

// sum + a₀b₀ + a₁b₁ of bf16, in float32; numbers below 2⁻¹²⁶ count as 0.
HWY_INLINE DotSums AddDots(DotSums sum, DotWords a, DotWords b) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
  return sum;
}
// Two vectors of floats as bf16, the first of them in the lower half; the nearest, of two the even
// one, and 0 below 2⁻¹²⁶.
HWY_INLINE DotWords ToHalves(DotSums first, DotSums second) {
  DotWords to;
  asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(to.raw) : "v"(first.raw), "v"(second.raw));
  return to;
}
// Word j: number j of the first in its lower half, of the second in its upper one.
HWY_INLINE DotWords ToPairs(DotSums first, DotSums second) {
  alignas(64) static constexpr uint16_t kInTurn[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                       21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                       11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const hn::Repartition<uint16_t, hn::ScalableTag<uint32_t>> d;
  DotWords to = ToHalves(first, second);
  asm("vpermw %0, %1, %0" : "+v"(to.raw) : "v"(hn::Load(d, kInTurn).raw));
  return to;
}
// sum + Σ u·s over four bytes, those of u unsigned.
HWY_INLINE DotInts AddDots(DotInts sum, DotInts u, DotInts s) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(u.raw), "v"(s.raw));
  return sum;
}
#else
HWY_INLINE bool HasBf16Dots() { return false; }
HWY_INLINE bool HasByteDots() { return false; }
HWY_INLINE DotSums AddDots(DotSums sum, DotWords, DotWords) { return sum; }
HWY_INLINE DotWords ToHalves(DotSums, DotSums) { return hn::Zero(hn::ScalableTag<uint32_t>()); }
HWY_INLINE DotWords ToPairs(DotSums, DotSums) { return hn::Zero(hn::ScalableTag<uint32_t>()); }
HWY_INLINE DotInts AddDots(DotInts sum, DotInts, DotInts) { return sum; }
#endif

// The two bf16 of a word, as floats.
HWY_INLINE DotSums FirstOf(DotWords pair) {
  return hn::BitCast(hn::ScalableTag<float>(), hn::ShiftLeft<16>(pair));
}
HWY_INLINE DotSums SecondOf(DotWords pair) {
  const hn::ScalableTag<uint32_t> d;
  return hn::BitCast(hn::ScalableTag<float>(), hn::And(pair, hn::Set(d, 0xffff0000u)));
}

// The nearest bf16 of floats, of two the even one, in the lower halves. A NaN stays one.
HWY_INLINE DotWords NearestBf16(DotSums x) {
  const hn::ScalableTag<uint32_t> d;
  const auto bits = hn::BitCast(d, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1u));
  const auto nearest = hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7fffu)));
  const auto nan = hn::Or(bits, hn::Set(d, 0x400000u));
  return hn::ShiftRight<16>(hn::IfThenElse(hn::RebindMask(d, hn::Ne(x, x)), nan, nearest));
}

}  // namespace
}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_DOTS_INL_H_
