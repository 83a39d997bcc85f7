// Numbers to fewer bits.
#if defined(FOVEA_NARROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_NARROW_INL_H_
#undef FOVEA_NARROW_INL_H_
#else
#define FOVEA_NARROW_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cfloat>
#include <cstdint>
#include <limits>

#include "kernels/dots-inl.h"
#include "kernels/load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace {

using F = hn::ScalableTag<float>;
constexpr int64_t kWhole = hn::MaxLanes(F());  // numbers of a vector

// Stores the first n numbers of one vector.
template <class D, class T>
HWY_INLINE void StoreSome(hn::Vec<D> v, D d, T* to, int64_t n) {
  if (n >= kWhole) return hn::StoreU(v, d, to);
  HWY_ALIGN T lanes[kWhole];
  hn::Store(v, d, lanes);
  std::copy_n(lanes, n, to);
}

// f(first, vector of as many as there are, how many) along n numbers.
template <class T, class Each>
HWY_INLINE void ForVectors(const T* x, int64_t n, const Each& f) {
  const F d;
  int64_t i = 0;
  for (; i + kWhole <= n; i += kWhole) f(i, Floats(d, x + i), kWhole);
  if (i < n) f(i, FirstFloats(d, x + i, n - i), n - i);
}

// x = s·q with whole q from −127 to 127 and s = max|x|/127; gives s, NaN where a number is not
// finite.
inline float ToI8(const float* x, int64_t n, int8_t* HWY_RESTRICT to) {
  const hn::Rebind<int8_t, F> d8;
  auto largest = hn::Zero(F());
  auto odd = hn::Zero(F());  // 0 where all are finite
  ForVectors(x, n, [&](int64_t, hn::Vec<F> v, int64_t) HWY_ATTR {
    largest = hn::Max(largest, hn::Abs(v));
    odd = hn::MulAdd(v, hn::Zero(F()), odd);
  });
  const bool finite = hn::GetLane(hn::SumOfLanes(F(), odd)) == 0.0f;
  const float most = hn::GetLane(hn::MaxOfLanes(F(), largest));
  const float s = finite ? std::max(most / 127.0f, FLT_MIN) : 1.0f;
  const auto by = hn::Set(F(), s), zero = hn::Zero(F());
  const hn::Rebind<int32_t, F> d32;
  ForVectors(x, n, [&](int64_t i, hn::Vec<F> v, int64_t some) HWY_ATTR {
    const auto steps = hn::NearestInt(finite ? hn::Div(v, by) : zero);
    StoreSome(hn::DemoteTo(d8, hn::Max(hn::Set(d32, -127), hn::Min(hn::Set(d32, 127), steps))), d8,
              to + i, some);
  });
  return finite ? s : std::numeric_limits<float>::quiet_NaN();
}

// The nearest bf16.
inline void ToBf16(const float* x, int64_t n, uint16_t* HWY_RESTRICT to) {
  const hn::Rebind<uint16_t, F> d16;
  const hn::RebindToSigned<hn::Rebind<uint32_t, F>> d32;
  ForVectors(x, n, [&](int64_t i, hn::Vec<F> v, int64_t some) HWY_ATTR {
    StoreSome(hn::DemoteTo(d16, hn::BitCast(d32, NearestBf16(v))), d16, to + i, some);
  });
}

}  // namespace
}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_NARROW_INL_H_
