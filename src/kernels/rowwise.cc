#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rowwise.cc"
#include <hwy/foreach_target.h>
// Highway's headers follow the line above.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/memory.h"
#include "core/threads.h"
#include "kernels/math-inl.h"
#include "kernels/rowwise.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels {
namespace HWY_NAMESPACE {

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

void SoftmaxRow(const float* x, float* y, int64_t n) {
  const D tag;
  const float top = MaxOf(x, n);
  if (top == kMinusInf) {
    std::fill_n(y, n, 0.0f);
    return;
  }
  const V m = hn::Set(tag, top);
  MapOver(n, y, [&](D d, const auto& load) HWY_ATTR { return Exp(d, hn::Sub(load(x), m)); });
  const float sum = SumOver(n, [&](D, const auto& load) HWY_ATTR { return load(y, 0.0f); });
  const V scale = hn::Set(tag, 1.0f / sum);
  MapOver(n, y, [&](D, const auto& load) HWY_ATTR { return hn::Mul(load(y), scale); });
}

void DSoftmaxRow(const float* y, const float* dy, float* dx, int64_t n) {
  const D tag;
  const float dot = SumOver(
      n, [&](D, const auto& load) HWY_ATTR { return hn::Mul(load(y, 0.0f), load(dy, 0.0f)); });
  const V s = hn::Set(tag, dot);
  MapOver(n, dx,
          [&](D, const auto& load) HWY_ATTR { return hn::Mul(load(y), hn::Sub(load(dy), s)); });
}

void LogSoftmaxRow(const float* x, float* y, int64_t n) {
  const D tag;
  const float top = MaxOf(x, n);
  if (top == kMinusInf) {
    std::fill_n(y, n, kMinusInf);
    return;
  }
  const V m = hn::Set(tag, top);
  const float sum = SumOver(
      n, [&](D d, const auto& load) HWY_ATTR { return Exp(d, hn::Sub(load(x, kMinusInf), m)); });
  const V shift = hn::Set(tag, std::log(sum));
  MapOver(n, y, [&](D, const auto& load) HWY_ATTR { return hn::Sub(hn::Sub(load(x), m), shift); });
}

void DLogSoftmaxRow(const float* y, const float* dy, float* dx, int64_t n) {
  const D tag;
  const V s =
      hn::Set(tag, SumOver(n, [&](D, const auto& load) HWY_ATTR { return load(dy, 0.0f); }));
  MapOver(n, dx, [&](D d, const auto& load) HWY_ATTR {
    return hn::NegMulAdd(Exp(d, load(y)), s, load(dy));
  });
}

// Two passes over the row, which is in the cache: the mean first, then the squares about it.
void NormRow(const float* x, const Affine& affine, float* y, Moments at, int64_t n) {
  const D tag;
  const float inverse_n = 1.0f / static_cast<float>(n);
  float mu = 0.0f;
  if (at.mean != nullptr) {
    mu = inverse_n * SumOver(n, [&](D, const auto& load) HWY_ATTR { return load(x, 0.0f); });
    *at.mean = mu;
  }
  const V m = hn::Set(tag, mu);
  const float var = inverse_n * SumOver(n, [&](D, const auto& load) HWY_ATTR {
                      const V c = hn::Sub(load(x, mu), m);
                      return hn::Mul(c, c);
                    });
  *at.rstd = 1.0f / std::sqrt(var + affine.epsilon);
  const V r = hn::Set(tag, *at.rstd), zero = hn::Zero(tag), one = hn::Set(tag, 1.0f);
  MapOver(n, y, [&](D, const auto& load) HWY_ATTR {
    const V unit = hn::Mul(hn::Sub(load(x), m), r);
    return hn::MulAdd(unit, affine.w != nullptr ? load(affine.w) : one,
                      affine.b != nullptr ? load(affine.b) : zero);
  });
}

void DNormRow(const Normed& row, const float* w, float* dx, int64_t n) {
  const D tag;
  const float *x = row.x, *dy = row.dy, *mean = row.at.mean;
  const float inverse_n = 1.0f / static_cast<float>(n);
  const V one = hn::Set(tag, 1.0f), r = hn::Set(tag, *row.at.rstd);
  const V m = hn::Set(tag, mean != nullptr ? *mean : 0.0f);
  const float g_sum = mean == nullptr ? 0.0f : SumOver(n, [&](D, const auto& load) HWY_ATTR {
    return hn::Mul(load(dy, 0.0f), w != nullptr ? load(w, 0.0f) : one);
  });
  const float gx_sum = SumOver(n, [&](D, const auto& load) HWY_ATTR {
    const V g = hn::Mul(load(dy, 0.0f), w != nullptr ? load(w, 0.0f) : one);
    return hn::Mul(g, hn::Mul(hn::Sub(load(x, 0.0f), m), r));
  });
  const V a = hn::Set(tag, g_sum * inverse_n), b = hn::Set(tag, gx_sum * inverse_n);
  MapOver(n, dx, [&](D, const auto& load) HWY_ATTR {
    const V g = hn::Mul(load(dy), w != nullptr ? load(w) : one);
    const V unit = hn::Mul(hn::Sub(load(x), m), r);
    return hn::Mul(r, hn::NegMulAdd(unit, b, hn::Sub(g, a)));
  });
}

// dw += dy·x̂, db += dy
void DAffineRow(const Normed& row, float* dw, float* db, int64_t n) {
  const D tag;
  const float *x = row.x, *dy = row.dy;
  const V m = hn::Set(tag, row.at.mean != nullptr ? *row.at.mean : 0.0f);
  const V r = hn::Set(tag, *row.at.rstd);
  if (dw != nullptr) {
    MapOver(n, dw, [&](D, const auto& load) HWY_ATTR {
      return hn::MulAdd(load(dy), hn::Mul(hn::Sub(load(x), m), r), load(dw));
    });
  }
  if (db != nullptr) {
    MapOver(n, db, [&](D, const auto& load) HWY_ATTR { return hn::Add(load(db), load(dy)); });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::kernels {

HWY_EXPORT(SoftmaxRow);
HWY_EXPORT(DSoftmaxRow);
HWY_EXPORT(LogSoftmaxRow);
HWY_EXPORT(DLogSoftmaxRow);
HWY_EXPORT(NormRow);
HWY_EXPORT(DNormRow);
HWY_EXPORT(DAffineRow);

namespace {

template <class F>
void for_rows(Rows rows, const F& body) {
  if (rows.n > 0) parallel_for(rows.count, rows.n, body);
}

Moments of_row(Moments at, int64_t r) {
  return {at.mean != nullptr ? at.mean + r : nullptr, at.rstd + r};
}
Normed of_row(const Normed& x, int64_t r, int64_t n) {
  return {x.x + r * n, of_row(x.at, r), x.dy + r * n};
}

}  // namespace

void fill_rows(Rows rows, const float* bias, const float* addend, float* y) {
  for_rows(rows, [&](int64_t r) {
    float* to = y + r * rows.n;
    const float* from = addend == nullptr ? bias : addend + r * rows.n;
    if (from == nullptr) {
      std::fill_n(to, rows.n, 0.0f);
    } else if (bias == nullptr || addend == nullptr) {
      std::copy_n(from, rows.n, to);
    } else {
      for (int64_t j = 0; j < rows.n; ++j) to[j] = from[j] + bias[j];
    }
  });
}

void clear_rows(Rows rows, const uint8_t* keep, float* x) {
  for_rows(rows, [&](int64_t r) {
    if (keep[r] == 0) std::fill_n(x + r * rows.n, rows.n, 0.0f);
  });
}

void softmax_rows(Rows rows, const float* x, float* y) {
  const auto row = HWY_DYNAMIC_DISPATCH(SoftmaxRow);
  for_rows(rows, [&](int64_t r) { row(x + r * rows.n, y + r * rows.n, rows.n); });
}

void d_softmax_rows(Rows rows, const float* y, const float* dy, float* dx) {
  const auto row = HWY_DYNAMIC_DISPATCH(DSoftmaxRow);
  for_rows(rows, [&](int64_t r) { row(y + r * rows.n, dy + r * rows.n, dx + r * rows.n, rows.n); });
}

void log_softmax_rows(Rows rows, const float* x, float* y) {
  const auto row = HWY_DYNAMIC_DISPATCH(LogSoftmaxRow);
  for_rows(rows, [&](int64_t r) { row(x + r * rows.n, y + r * rows.n, rows.n); });
}

void d_log_softmax_rows(Rows rows, const float* y, const float* dy, float* dx) {
  const auto row = HWY_DYNAMIC_DISPATCH(DLogSoftmaxRow);
  for_rows(rows, [&](int64_t r) { row(y + r * rows.n, dy + r * rows.n, dx + r * rows.n, rows.n); });
}

void norm_rows(Rows rows, const float* x, const Affine& affine, float* y, Moments at) {
  const auto row = HWY_DYNAMIC_DISPATCH(NormRow);
  for_rows(rows,
           [&](int64_t r) { row(x + r * rows.n, affine, y + r * rows.n, of_row(at, r), rows.n); });
}

void d_norm_rows(Rows rows, const Normed& x, const float* w, float* dx) {
  const auto row = HWY_DYNAMIC_DISPATCH(DNormRow);
  for_rows(rows, [&](int64_t r) { row(of_row(x, r, rows.n), w, dx + r * rows.n, rows.n); });
}

void d_norm_affine(Rows rows, const Normed& x, float* dw, float* db) {
  constexpr int64_t kRows = 128;
  const auto row = HWY_DYNAMIC_DISPATCH(DAffineRow);
  const int64_t n = rows.n, blocks = (rows.count + kRows - 1) / kRows;
  const Buffer<float> part(std::max<int64_t>(1, blocks) * 2 * n);
  parallel_for(blocks, kRows * n, [&](int64_t block) {
    float* w = part.data() + block * 2 * n;
    std::fill_n(w, 2 * n, 0.0f);
    for (int64_t r = block * kRows; r < std::min(rows.count, (block + 1) * kRows); ++r) {
      row(of_row(x, r, n), dw != nullptr ? w : nullptr, db != nullptr ? w + n : nullptr, n);
    }
  });
  for (int64_t i = 0; i < n; ++i) {
    double w = 0.0, b = 0.0;
    for (int64_t block = 0; block < blocks; ++block) {
      w += part[block * 2 * n + i];
      b += part[block * 2 * n + n + i];
    }
    if (dw != nullptr) dw[i] = static_cast<float>(w);
    if (db != nullptr) db[i] = static_cast<float>(b);
  }
}

}  // namespace fovea::kernels
#endif  // HWY_ONCE
