#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rotate.cc"
#include <hwy/foreach_target.h>
// Highway's headers follow the line above.
#include <hwy/highway.h>

#include <algorithm>

#include "core/threads.h"
#include "kernels/rotate.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// y₁ = x₁·c − x₂·s, y₂ = x₂·c + x₁·s over the halves of a row.
HWY_INLINE void RotateRow(const float* x, const float* cos, const float* sin, float turn,
                          int64_t half, float* y) {
  const hn::ScalableTag<float> d;
  const auto N = static_cast<int64_t>(hn::Lanes(d));
  const auto sign = hn::Set(d, turn);
  int64_t i = 0;
  for (; i + N <= half; i += N) {
    const auto c = hn::LoadU(d, cos + i), s = hn::Mul(hn::LoadU(d, sin + i), sign);
    const auto x1 = hn::LoadU(d, x + i), x2 = hn::LoadU(d, x + half + i);
    hn::StoreU(hn::NegMulAdd(x2, s, hn::Mul(x1, c)), d, y + i);
    hn::StoreU(hn::MulAdd(x1, s, hn::Mul(x2, c)), d, y + half + i);
  }
  for (; i < half; ++i) {
    const float c = cos[i], s = sin[i] * turn, x1 = x[i], x2 = x[half + i];
    y[i] = x1 * c - x2 * s;
    y[half + i] = x2 * c + x1 * s;
  }
}

// Rows r = b·L + l of every head.
void RotateRows(const HeadSizes& n, const HeadRows& x, const Angles& by, const HeadRows& y,
                int64_t begin, int64_t end) {
  const int64_t half = n.d / 2;
  for (int64_t r = begin; r < end; ++r) {
    const int64_t b = r / n.L, l = r % n.L;
    const float* from = x.data + b * x.batch + l * x.row;
    float* to = y.data + b * y.batch + l * y.row;
    for (int64_t h = 0; h < n.H; ++h) {
      RotateRow(from + h * x.head, by.cos + l * half, by.sin + l * half, by.turn, half,
                to + h * y.head);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::kernels {

HWY_EXPORT(RotateRows);

void rotate(const HeadSizes& n, const HeadRows& x, const Angles& by, const HeadRows& y) {
  constexpr int64_t kElements = 1 << 14;  // of a task
  const int64_t rows = n.B * n.L;
  const int64_t at_once = std::max<int64_t>(1, kElements / std::max<int64_t>(1, n.H * n.d));
  parallel_for((rows + at_once - 1) / at_once, [&](int64_t task) {
    const int64_t begin = task * at_once, end = std::min(rows, begin + at_once);
    HWY_DYNAMIC_DISPATCH(RotateRows)(n, x, by, y, begin, end);
  });
}

}  // namespace fovea::kernels
#endif  // HWY_ONCE
