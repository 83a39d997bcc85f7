#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dropout.cc"
#include <hwy/foreach_target.h>
// Highway's headers follow the line above.
#include <hwy/highway.h>

#include <algorithm>

#include "core/threads.h"
#include "kernels/dropout.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using U = hn::ScalableTag<uint32_t>;
using VU = hn::Vec<U>;

HWY_INLINE VU Mix32(U u, VU x) {
  x = hn::Xor(x, hn::ShiftRight<16>(x));
  x = hn::Mul(x, hn::Set(u, 0x7feb352du));
  x = hn::Xor(x, hn::ShiftRight<15>(x));
  x = hn::Mul(x, hn::Set(u, 0x846ca68bu));
  return hn::Xor(x, hn::ShiftRight<16>(x));
}

// Elements begin … end − 1, which share the upper half of their index.
void DropRange(int64_t begin, int64_t end, const float* x, const Drop& drop, float* y) {
  const U u;
  const hn::RebindToFloat<U> d;
  const int64_t N = static_cast<int64_t>(hn::Lanes(u));
  const uint32_t upper = static_cast<uint32_t>(static_cast<uint64_t>(begin) >> 32);
  const VU a = hn::Set(u, drop.key.a);
  const VU b = hn::Set(u, upper == 0 ? drop.key.b : mix32(drop.key.b ^ upper));
  const VU least = hn::Set(u, static_cast<uint32_t>(drop.threshold));  // that keeps
  const auto scale = hn::Set(d, drop.scale);
  int64_t i = begin;
  for (; i + N <= end; i += N) {
    const VU at = hn::Iota(u, static_cast<uint32_t>(i));
    const VU bits = Mix32(u, hn::Add(Mix32(u, hn::Xor(at, a)), b));
    const auto keep = hn::RebindMask(d, hn::Eq(hn::Max(bits, least), bits));
    hn::StoreU(hn::IfThenElseZero(keep, hn::Mul(hn::LoadU(d, x + i), scale)), d, y + i);
  }
  for (; i < end; ++i) {
    y[i] = bits32(drop.key, static_cast<uint64_t>(i)) < drop.threshold ? 0.0f : x[i] * drop.scale;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::kernels {

HWY_EXPORT(DropRange);

void dropout(int64_t n, const float* x, const Drop& drop, float* y) {
  if (drop.threshold > 0xffffffffu) {
    std::fill_n(y, n, 0.0f);
    return;
  }
  constexpr int64_t kChunk = 1 << 15;  // divides 2³²
  parallel_for((n + kChunk - 1) / kChunk, [&](int64_t chunk) {
    HWY_DYNAMIC_DISPATCH(DropRange)
    (chunk * kChunk, std::min(n, (chunk + 1) * kChunk), x, drop, y);
  });
}

}  // namespace fovea::kernels
#endif  // HWY_ONCE
