// A row of n numbers: its sum, its maximum, a function of each.
#if defined(FOVEA_ROWWISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_ROWWISE_INL_H_
#undef FOVEA_ROWWISE_INL_H_
#else
#define FOVEA_ROWWISE_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr float kMinusInf = -std::numeric_limits<float>::infinity();

// The tail of a row is loaded lane by lane, filled up with `other`.
HWY_INLINE V LoadTail(D d, const float* x, int64_t n, float other) {
  HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(hn::Set(d, other), d, lanes);
  std::copy(x, x + n, lanes);
  return hn::Load(d, lanes);
}
HWY_INLINE void StoreTail(D d, V v, float* y, int64_t n) {
  HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(v, d, lanes);
  std::copy(lanes, lanes + n, y);
}

// Σ f(load) where load(x, other) gives the next lanes of x; f is 0 on filled-up lanes.
template <class F>
HWY_INLINE float SumOver(int64_t n, const F& f) {
  const D d;
  const int64_t N = static_cast<int64_t>(hn::Lanes(d));
  V s0 = hn::Zero(d), s1 = s0;
  int64_t i = 0;
  const auto full = [&](const float* x, float) HWY_ATTR { return hn::LoadU(d, x + i); };
  const auto next = [&](const float* x, float) HWY_ATTR { return hn::LoadU(d, x + i + N); };
  const auto tail = [&](const float* x, float other)
                        HWY_ATTR { return LoadTail(d, x + i, n - i, other); };
  for (; i + 2 * N <= n; i += 2 * N) {
    s0 = hn::Add(s0, f(d, full));
    s1 = hn::Add(s1, f(d, next));
  }
  for (; i + N <= n; i += N) s0 = hn::Add(s0, f(d, full));
  if (i < n) s1 = hn::Add(s1, f(d, tail));
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s1)));
}

template <class F>
HWY_INLINE void MapOver(int64_t n, float* y, const F& f) {
  const D d;
  const int64_t N = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  const auto full = [&](const float* x) HWY_ATTR { return hn::LoadU(d, x + i); };
  const auto tail = [&](const float* x) HWY_ATTR { return LoadTail(d, x + i, n - i, 0.0f); };
  for (; i + N <= n; i += N) hn::StoreU(f(d, full), d, y + i);
  if (i < n) StoreTail(d, f(d, tail), y + i, n - i);
}

HWY_INLINE float MaxLane(V m) {
#if HWY_TARGET == HWY_EMU128  // whose MaxOfLanes knows nothing below the lowest finite number
  HWY_ALIGN float lanes[hn::MaxLanes(D())];
  hn::Store(m, D(), lanes);
  return *std::max_element(lanes, lanes + hn::Lanes(D()));
#else
  return hn::GetLane(hn::MaxOfLanes(D(), m));
#endif
}

HWY_INLINE float MaxOf(const float* x, int64_t n) {
  const D d;
  const int64_t N = static_cast<int64_t>(hn::Lanes(d));
  V m = hn::Set(d, kMinusInf);
  int64_t i = 0;
  for (; i + N <= n; i += N) m = hn::Max(m, hn::LoadU(d, x + i));
  if (i < n) m = hn::Max(m, LoadTail(d, x + i, n - i, kMinusInf));
  return MaxLane(m);
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_ROWWISE_INL_H_
