#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemv.cc"
#include <hwy/foreach_target.h>
// Highway's headers follow the line above.
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "core/threads.h"
#include "kernels/gemv.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using F = hn::ScalableTag<float>;
using Vec = hn::Vec<F>;

// n < lanes numbers, then zeros.
HWY_INLINE Vec LoadPart(const float* x, int64_t n) {
  HWY_ALIGN float lanes[hn::MaxLanes(F())] = {};
  std::memcpy(lanes, x, static_cast<size_t>(n) * sizeof(float));
  return hn::Load(F(), lanes);
}

// The sum of w·x[v] for M vectors, to y[v·apart]. A row after the other is a stream, which the
// machine fetches ahead of its reader: twice as fast as four rows side by side. Four chains of sums
// in all hide the latency of a multiply-add.
template <int M>
HWY_INLINE void Row(const float* HWY_RESTRICT w, const float* HWY_RESTRICT x, int64_t n, float* y,
                    int64_t apart) {
  constexpr int kChains = 4 / M;
  const F d;
  const int64_t N = static_cast<int64_t>(hn::Lanes(d));
  Vec sum[M][kChains];
  for (int v = 0; v < M; ++v) {
    for (int c = 0; c < kChains; ++c) sum[v][c] = hn::Zero(d);
  }
  int64_t i = 0;
  const auto step = [&](int c) HWY_ATTR {
    const Vec left = hn::LoadU(d, w + i + c * N);
    for (int v = 0; v < M; ++v) {
      sum[v][c] = hn::MulAdd(left, hn::LoadU(d, x + v * n + i + c * N), sum[v][c]);
    }
  };
  for (; i + kChains * N <= n; i += kChains * N) {
    HWY_UNROLL(4)
    for (int c = 0; c < kChains; ++c) step(c);
  }
  for (; i + N <= n; i += N) step(0);
  if (i < n) {
    const Vec left = LoadPart(w + i, n - i);
    for (int v = 0; v < M; ++v) {
      sum[v][0] = hn::MulAdd(left, LoadPart(x + v * n + i, n - i), sum[v][0]);
    }
  }
  for (int v = 0; v < M; ++v) {
    for (int c = 1; c < kChains; ++c) sum[v][0] = hn::Add(sum[v][0], sum[v][c]);
    y[v * apart] = hn::GetLane(hn::SumOfLanes(d, sum[v][0]));
  }
}

template <int M>
HWY_NOINLINE void Rows(const Gemv& g, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) Row<M>(g.w + r * g.w_row, g.x, g.cols, g.y + r, g.rows);
}

}  // namespace

// Rows begin … end − 1 of W.
void GemvRows(const Gemv& g, int64_t begin, int64_t end) {
  static_assert(kMostVectors == 4);
  if (g.vectors == 1) Rows<1>(g, begin, end);
  if (g.vectors == 2) Rows<2>(g, begin, end);
  if (g.vectors == 3) Rows<3>(g, begin, end);
  if (g.vectors == 4) Rows<4>(g, begin, end);
  for (int64_t v = 0; v < g.vectors; ++v) {
    float* y = g.y + v * g.rows;
    for (int64_t r = begin; g.bias != nullptr && r < end; ++r) y[r] += g.bias[r];
    for (int64_t r = begin; g.addend != nullptr && r < end; ++r) y[r] += g.addend[v * g.rows + r];
  }
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::kernels {

HWY_EXPORT(GemvRows);

void gemv(const Gemv& g) {
  constexpr int64_t kNumbers = 1 << 15;  // of a task: some microseconds, so that no thread waits
  const int64_t each = std::max<int64_t>(1, kNumbers / std::max<int64_t>(1, g.cols));
  const auto rows = HWY_DYNAMIC_DISPATCH(GemvRows);
  parallel_for((g.rows + each - 1) / each,
               [&](int64_t task) { rows(g, task * each, std::min(g.rows, (task + 1) * each)); });
}

}  // namespace fovea::kernels
#endif  // HWY_ONCE
