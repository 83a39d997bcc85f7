#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rowwise.cc"
#include <hwy/foreach_target.h>
#include "kernels/scalar_size.h"
// Highway's headers follow the line above.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "core/allocator.h"
#include "core/threads.h"
#include "kernels/math-inl.h"
#include "kernels/rowwise-inl.h"
#include "kernels/rowwise.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels {
namespace HWY_NAMESPACE {

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

void d_norm_rows(Rows rows, const Normed& x, const float* w, const NormGradients& d) {
  const auto d_row = HWY_DYNAMIC_DISPATCH(DNormRow);
  const auto d_affine = HWY_DYNAMIC_DISPATCH(DAffineRow);
  const int64_t n = rows.n;
  if (d.w == nullptr && d.b == nullptr) {
    return for_rows(rows, [&](int64_t r) { d_row(of_row(x, r, n), w, d.x + r * n, n); });
  }
  constexpr int64_t kRows = 128;
  const int64_t blocks = (rows.count + kRows - 1) / kRows;
  const Buffer<float> part(std::max<int64_t>(1, blocks) * 2 * n);
  parallel_for(blocks, kRows * n, [&](int64_t block) {
    float* dw = part.data() + block * 2 * n;
    std::fill_n(dw, 2 * n, 0.0f);
    for (int64_t r = block * kRows; r < std::min(rows.count, (block + 1) * kRows); ++r) {
      const Normed row = of_row(x, r, n);
      d_row(row, w, d.x + r * n, n);
      d_affine(row, d.w != nullptr ? dw : nullptr, d.b != nullptr ? dw + n : nullptr, n);
    }
  });
  for (int64_t i = 0; i < n; ++i) {
    double dw = 0.0, db = 0.0;
    for (int64_t block = 0; block < blocks; ++block) {
      dw += part[block * 2 * n + i];
      db += part[block * 2 * n + n + i];
    }
    if (d.w != nullptr) d.w[i] = static_cast<float>(dw);
    if (d.b != nullptr) d.b[i] = static_cast<float>(db);
  }
}

}  // namespace fovea::kernels
#endif  // HWY_ONCE
