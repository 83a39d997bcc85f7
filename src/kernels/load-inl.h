// Numbers of any type as vectors of floats.
#if defined(FOVEA_LOAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_LOAD_INL_H_
#undef FOVEA_LOAD_INL_H_
#else
#define FOVEA_LOAD_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#include "kernels/numbers.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> Floats(D d, const float* x) {
  return hn::LoadU(d, x);
}
template <class D>
HWY_INLINE hn::Vec<D> Floats(D d, const Bf16* x) {
  const hn::Rebind<uint32_t, D> d32;
  const hn::Rebind<uint16_t, D> d16;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(x));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}
// By the machine where it can; else exponent and mantissa in their places are 2⁻¹¹² times too
// small, subnormals too, and what is not finite has another exponent.
template <class D>
HWY_INLINE hn::Vec<D> Floats(D d, const F16* x) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  const hn::Rebind<hwy::float16_t, D> d16;
  return hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(x)));
#else
  const hn::Rebind<uint32_t, D> d32;
  const hn::Rebind<uint16_t, D> d16;
  const auto bits = hn::PromoteTo(d32, hn::LoadU(d16, reinterpret_cast<const uint16_t*>(x)));
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(d32, 0x8000u)));
  const auto size = hn::And(bits, hn::Set(d32, 0x7fffu));
  const auto scaled = hn::Mul(hn::BitCast(d, hn::ShiftLeft<13>(size)), hn::Set(d, 0x1p112f));
  const auto odd =
      hn::IfThenElseZero(hn::Gt(size, hn::Set(d32, 0x7bffu)), hn::Set(d32, 0x7f800000u));
  return hn::BitCast(d, hn::Or(sign, hn::Or(odd, hn::BitCast(d32, scaled))));
#endif
}
template <class D>
HWY_INLINE hn::Vec<D> Floats(D d, const int8_t* x) {
  const hn::Rebind<int32_t, D> d32;
  const hn::Rebind<int8_t, D> d8;
  return hn::ConvertTo(d, hn::PromoteTo(d32, hn::LoadU(d8, x)));
}

#undef FOVEA_MASKED  // whether masked lanes are not touched
#define FOVEA_MASKED (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2)

// n < Lanes(d) numbers, then zeros.
template <class D, class T>
HWY_INLINE hn::Vec<D> FirstFloats(D d, const T* x, int64_t n) {
#if FOVEA_MASKED
  if constexpr (sizeof(T) == sizeof(float)) {
    return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(n)), d, x);
  }
#endif
  HWY_ALIGN T lanes[hn::MaxLanes(D())] = {};
  std::memcpy(lanes, x, static_cast<size_t>(n) * sizeof(T));
  return Floats(d, lanes);
}

// One of them.
template <class T>
HWY_INLINE float FloatOf(const T* x) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return *x;
  } else {
    return hn::GetLane(Floats(hn::CappedTag<float, 1>(), x));
  }
}

}  // namespace
}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_LOAD_INL_H_
