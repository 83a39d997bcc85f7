#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cross_entropy.cc"
#include <hwy/foreach_target.h>
// Highway's headers follow the line above.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/threads.h"
#include "kernels/cross_entropy.h"
#include "kernels/math-inl.h"
#include "kernels/rowwise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels {
namespace HWY_NAMESPACE {

// A row that is −inf throughout has no probabilities: ln p = −inf.
void LogSumRow(const float* x, LogSums to, int64_t n) {
  const D tag;
  const float top = MaxOf(x, n);
  *to.max = top == kMinusInf ? 0.0f : top;
  *to.log = std::numeric_limits<float>::infinity();
  if (top == kMinusInf) return;
  const V m = hn::Set(tag, top);
  const float sum = SumOver(
      n, [&](D d, const auto& load) HWY_ATTR { return Exp(d, hn::Sub(load(x, kMinusInf), m)); });
  *to.log = std::log(sum);
}

// Σ_c ln p[c]
float SumOfLogsRow(const float* x, LogSums of, int64_t n) {
  const D tag;
  const V m = hn::Set(tag, *of.max), log = hn::Set(tag, *of.log);
  return SumOver(n, [&](D, const auto& load)
                        HWY_ATTR { return hn::Sub(hn::Sub(load(x, *of.max + *of.log), m), log); });
}

// dx = g·(p − each)
void DCrossEntropyRow(const float* x, LogSums of, float g, float each, float* dx, int64_t n) {
  const D tag;
  const V m = hn::Set(tag, *of.max), log = hn::Set(tag, *of.log);
  const V by = hn::Set(tag, g), less = hn::Set(tag, g * each);
  MapOver(n, dx, [&](D d, const auto& load) HWY_ATTR {
    const V p = Exp(d, hn::Sub(hn::Sub(load(x), m), log));
    return hn::MulSub(by, p, less);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::kernels {

HWY_EXPORT(LogSumRow);
HWY_EXPORT(SumOfLogsRow);
HWY_EXPORT(DCrossEntropyRow);

namespace {

LogSums of_row(LogSums s, int64_t r) { return {s.max + r, s.log + r}; }

}  // namespace

int64_t cross_entropy_rows(Rows rows, const Targets& t, const float* x, LogSums sums, float* loss) {
  const float s = t.smoothing, each = s / static_cast<float>(rows.n);
  const auto log_sum = HWY_DYNAMIC_DISPATCH(LogSumRow);
  const auto sum_of_logs = HWY_DYNAMIC_DISPATCH(SumOfLogsRow);
  parallel_for(rows.count, rows.n, [&](int64_t r) {
    loss[r] = 0.0f;
    if (t.ids[r] == t.ignored) return;
    const float* row = x + r * rows.n;
    const LogSums of = of_row(sums, r);
    log_sum(row, of, rows.n);
    loss[r] = -(1.0f - s) * (row[t.ids[r]] - *of.max - *of.log);
    if (s > 0.0f) loss[r] -= each * sum_of_logs(row, of, rows.n);
  });
  return rows.count - std::count(t.ids, t.ids + rows.count, t.ignored);
}

void d_cross_entropy_rows(Rows rows, const Targets& t, const LossGradient& d, const float* x,
                          LogSums sums, float* dx) {
  const float s = t.smoothing, each = s / static_cast<float>(rows.n);
  const auto d_row = HWY_DYNAMIC_DISPATCH(DCrossEntropyRow);
  parallel_for(rows.count, rows.n, [&](int64_t r) {
    float* row = dx + r * rows.n;
    if (t.ids[r] == t.ignored) {
      std::fill_n(row, rows.n, 0.0f);
      return;
    }
    const float g = d.factor * d.d_loss[r * d.step];
    d_row(x + r * rows.n, of_row(sums, r), g, each, row, rows.n);
    row[t.ids[r]] -= g * (1.0f - s);
  });
}

}  // namespace fovea::kernels
#endif  // HWY_ONCE
