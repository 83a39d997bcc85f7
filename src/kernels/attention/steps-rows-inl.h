// Rows of a memory: products with a vector, weighted sums, the softmax of a row, and sums of outer
// products over steps.
#if defined(FOVEA_ATTENTION_STEPS_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_ATTENTION_STEPS_ROWS_INL_H_
#undef FOVEA_ATTENTION_STEPS_ROWS_INL_H_
#else
#define FOVEA_ATTENTION_STEPS_ROWS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/attention/steps.h"
#include "kernels/math-inl.h"
#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace {

static_assert(kStepPad % (2 * kLanes) == 0);
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// ---- rows times a vector, and sums of rows -----------------------------------------------------

// s_j = x·m_j for R rows.
template <int R>
HWY_INLINE void DotRows(const RowsView<const float>& m, int64_t b, int64_t j, const float* x,
                        float* s) {
  const F d;
  const float* row[R];
  Vec sum[R];
  float rest[R] = {};
  for (int i = 0; i < R; ++i) {
    row[i] = m.row(b, j + i);
    sum[i] = hn::Zero(d);
  }
  int64_t c = 0;
  for (; c + kLanes <= m.width; c += kLanes) {
    const Vec v = hn::LoadU(d, x + c);
    for (int i = 0; i < R; ++i) sum[i] = hn::MulAdd(v, hn::LoadU(d, row[i] + c), sum[i]);
  }
  for (; c < m.width; ++c) {
    for (int i = 0; i < R; ++i) rest[i] += x[c] * row[i][c];
  }
  for (int i = 0; i < R; ++i) s[j + i] = SumOf(sum[i]) + rest[i];
}

HWY_INLINE void DotWithRows(const RowsView<const float>& m, int64_t b, int64_t end, const float* x,
                            float* s) {
  int64_t j = 0;
  for (; j + 8 <= end; j += 8) DotRows<8>(m, b, j, x, s);
  if (j + 4 <= end) DotRows<4>(m, b, j, x, s), j += 4;
  for (; j < end; ++j) DotRows<1>(m, b, j, x, s);
}

// y (+)= Σ_i w_i·m_i over R rows read side by side from end to end: few streams, each one long.
template <int R>
HWY_INLINE void AddRows(const RowsView<const float>& m, int64_t b, int64_t j, const float* w,
                        float* y) {
  const F d;
  const float* row[R];
  Vec factor[R];
  for (int i = 0; i < R; ++i) {
    row[i] = m.row(b, j + i);
    factor[i] = hn::Set(d, w[j + i]);
  }
  int64_t c = 0;
  for (; c + kLanes <= m.width; c += kLanes) {
    Vec sum = j > 0 ? hn::LoadU(d, y + c) : hn::Zero(d);
    for (int i = 0; i < R; ++i) sum = hn::MulAdd(factor[i], hn::LoadU(d, row[i] + c), sum);
    hn::StoreU(sum, d, y + c);
  }
  for (; c < m.width; ++c) {
    float sum = j > 0 ? y[c] : 0.0f;
    for (int i = 0; i < R; ++i) sum += w[j + i] * row[i][c];
    y[c] = sum;
  }
}

// y = Σ_j w_j·m_j
HWY_INLINE void SumRows(const RowsView<const float>& m, int64_t b, int64_t end, const float* w,
                        float* y) {
  if (end == 0) std::fill_n(y, m.width, 0.0f);
  int64_t j = 0;
  for (; j + 8 <= end; j += 8) AddRows<8>(m, b, j, w, y);
  if (j + 4 <= end) AddRows<4>(m, b, j, w, y), j += 4;
  if (j + 2 <= end) AddRows<2>(m, b, j, w, y), j += 2;
  if (j < end) AddRows<1>(m, b, j, w, y);
}

// ---- softmax of a short row --------------------------------------------------------------------

// A row that is −inf throughout gives 0; what lies behind `end` is 0. With NaN or +inf among them
// there are no weights: NaN, except where −inf forbids.
HWY_INLINE void SoftmaxInPlace(float* s, int64_t end, int64_t n, float factor) {
  const F d;
  float most = -kInf;
  bool defined = true;
  for (int64_t j = 0; j < end; ++j) {
    most = std::max(most, s[j] *= factor);
    defined &= s[j] < kInf;
  }
  std::fill(s + end, s + n, 0.0f);
  if (most == -kInf || !defined) {
    for (int64_t j = 0; j < end; ++j) s[j] = s[j] == -kInf ? 0.0f : kNan;
    return;
  }
  float sum = 0.0f;
  for (int64_t j = 0; j < end; j += kLanes) {
    HWY_ALIGN float lanes[kLanes];
    const int64_t m = std::min(kLanes, end - j);
    std::memcpy(lanes, s + j, m * sizeof(float));
    hn::Store(Exp(d, hn::Sub(hn::Load(d, lanes), hn::Set(d, most))), d, lanes);
    for (int64_t i = 0; i < m; ++i) sum += s[j + i] = lanes[i];
  }
  for (int64_t j = 0; j < end; ++j) s[j] /= sum;
}

// ---- Σ_t w_tj·x_t ------------------------------------------------------------------------------

struct OuterSum {
  const float* w;  // [steps][ldw]
  int64_t ldw;
  const float* x;  // [steps][ldx]
  int64_t ldx, steps;
};

// R rows of N vectors, of which n floats are written.
template <int R, int N>
HWY_INLINE void OuterTile(const OuterSum& of, float* const* to, int64_t n) {
  const F d;
  Vec sum[R][N];
  EachSum<R, N>([&](int i, int v) HWY_ATTR { sum[i][v] = hn::Zero(d); });
  AddProducts<ByFloats>({of.w, 1, of.ldw}, {of.x, of.ldx}, of.steps, sum);
  EachSum<R, N>([&](int i, int v) HWY_ATTR {
    if (n > v * kLanes) StoreUpTo(sum[i][v], to[i] + v * kLanes, n - v * kLanes);
  });
}

}  // namespace
}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_ATTENTION_STEPS_ROWS_INL_H_
