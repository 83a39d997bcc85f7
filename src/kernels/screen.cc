#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/screen.cc"
#include <hwy/foreach_target.h>
#include "kernels/scalar_size.h"
// Highway's headers follow the line above.
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "core/threads.h"
#include "kernels/gemm.h"
#include "kernels/math-inl.h"
#include "kernels/narrow.h"
#include "kernels/screen_pass.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels {
namespace HWY_NAMESPACE {

using F = hn::ScalableTag<float>;

// Σ_i q_i·x_i of one panel's rows.
#if HWY_TARGET == HWY_SCALAR
void Sums(const int8_t* q, const int32_t* x, int64_t pairs, int32_t* sums) {
  std::fill_n(sums, kScreenPanel, 0);
  for (int64_t i = 0; i < pairs; ++i, q += 2 * kScreenPanel) {
    const int32_t first = static_cast<int16_t>(x[i] & 0xffff), second = x[i] >> 16;
    for (int64_t r = 0; r < kScreenPanel; ++r) sums[r] += q[2 * r] * first + q[2 * r + 1] * second;
  }
}
#else
HWY_INLINE void Sums(const int8_t* HWY_RESTRICT q, const int32_t* HWY_RESTRICT x, int64_t pairs,
                     int32_t* HWY_RESTRICT sums) {
  const hn::ScalableTag<int32_t> d32;
  const hn::RepartitionToNarrow<decltype(d32)> d16;
  const hn::Rebind<int8_t, decltype(d16)> d8;
  constexpr int64_t kLanes = hn::MaxLanes(d32), kVectors = kScreenPanel / kLanes;
  hn::Vec<decltype(d32)> low[kVectors], high[kVectors];
  for (int64_t r = 0; r < kVectors; ++r) low[r] = high[r] = hn::Zero(d32);
  for (int64_t i = 0; i < pairs; ++i) {
    const auto both = hn::BitCast(d16, hn::Set(d32, x[i]));
    for (int64_t r = 0; r < kVectors; ++r, q += 2 * kLanes) {
      const auto w = hn::PromoteTo(d16, hn::LoadU(d8, q));
      low[r] = hn::ReorderWidenMulAccumulate(d32, w, both, low[r], high[r]);
    }
  }
  for (int64_t r = 0; r < kVectors; ++r) {
    hn::Store(hn::RearrangeToOddPlusEven(low[r], high[r]), d32, sums + r * kLanes);
  }
}
#endif

// Logits, ε and logit − ε.
HWY_INLINE void Panel(const ScreenPass& p, int64_t panel) {
  const F d;
  const Screen& s = p.screen;
  HWY_ALIGN int32_t sums[kScreenPanel];
  Sums(s.q.data() + panel * s.pairs * 2 * kScreenPanel, p.x, s.pairs, sums);
  for (int64_t r = 0; r < kScreenPanel; r += static_cast<int64_t>(hn::Lanes(d))) {
    const int64_t v = panel * kScreenPanel + r;
    const auto sum = hn::ConvertTo(d, hn::Load(hn::RebindToSigned<F>(), sums + r));
    const auto bias = hn::Load(d, s.bias.data() + v);
    const auto scale = hn::Mul(hn::Load(d, s.scale.data() + v), hn::Set(d, p.step));
    const auto logit = hn::MulAdd(scale, sum, bias);
    auto reach = hn::Mul(hn::Min(hn::Abs(bias), hn::Set(d, 1e30f)), hn::Set(d, 0x1p-22f));
    reach = hn::MulAdd(hn::Load(d, s.norm.data() + v), hn::Set(d, p.x_lost), reach);
    reach = hn::MulAdd(hn::Load(d, s.residual.data() + v), hn::Set(d, p.x_norm), reach);
    hn::Store(logit, d, p.logits + v);
    hn::Store(reach, d, p.reach + v);
    hn::Store(hn::Sub(logit, reach), d, p.parts + v);
  }
}

void Panels(const ScreenPass& p, int64_t begin, int64_t end) {
  for (int64_t panel = begin; panel < end; ++panel) Panel(p, panel);
}

float Largest(const float* x, int64_t n) {
  const F d;
  auto largest = hn::Set(d, -std::numeric_limits<float>::infinity());
  for (int64_t i = 0; i < n; i += static_cast<int64_t>(hn::Lanes(d))) {
    largest = hn::Max(largest, hn::Load(d, x + i));
  }
  return hn::GetLane(hn::MaxOfLanes(d, largest));
}

// Σ e^{logit − largest}, each kept in parts.
float SumOfParts(const ScreenPass& p, float largest) {
  const F d;
  auto sum = hn::Zero(d);
  for (int64_t v = 0; v < p.screen.padded(); v += static_cast<int64_t>(hn::Lanes(d))) {
    const auto e = Exp(d, hn::Sub(hn::Load(d, p.logits + v), hn::Set(d, largest)));
    hn::Store(e, d, p.parts + v);
    sum = hn::Add(sum, e);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// Σ (part·ε)² of the rows where part·ε ≤ most.
float LostBelow(const ScreenPass& p, float most) {
  const F d;
  auto sum = hn::Zero(d);
  for (int64_t v = 0; v < p.screen.padded(); v += static_cast<int64_t>(hn::Lanes(d))) {
    const auto lost = hn::Mul(hn::Load(d, p.parts + v), hn::Load(d, p.reach + v));
    const auto counts = hn::IfThenElseZero(hn::Le(lost, hn::Set(d, most)), lost);
    sum = hn::MulAdd(counts, counts, sum);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// Rows with logit + ε ≥ low or part·ε > most, in rising order.
void RowsToCompute(const ScreenPass& p, float low, float most, std::vector<int64_t>& rows) {
  const F d;
  const auto N = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t v = 0; v < p.screen.rows; v += N) {
    const auto e = hn::Load(d, p.reach + v);
    const auto may_win = hn::Ge(hn::Add(hn::Load(d, p.logits + v), e), hn::Set(d, low));
    const auto counts = hn::Gt(hn::Mul(hn::Load(d, p.parts + v), e), hn::Set(d, most));
    if (hn::AllFalse(d, hn::Or(may_win, counts))) continue;
    uint8_t bytes[8] = {};
    hn::StoreMaskBits(d, hn::Or(may_win, counts), bytes);
    uint64_t chosen = 0;  // none past the last row, whose bias is −∞
    for (int i = 0; i < 8; ++i) chosen |= static_cast<uint64_t>(bytes[i]) << (8 * i);
    for (; chosen != 0; chosen &= chosen - 1) rows.push_back(v + std::countr_zero(chosen));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::kernels {

HWY_EXPORT(Panels);
HWY_EXPORT(Largest);
HWY_EXPORT(SumOfParts);
HWY_EXPORT(LostBelow);
HWY_EXPORT(RowsToCompute);

namespace {

constexpr float kSteps8 = 127.0f;  // of a weight on either side of 0
constexpr double kLost = 1e-8;     // Σp²ε²/cols of the rows whose logits stay those of the copy
constexpr double kUnit = 0x1p-24;  // of rounding
constexpr float kNever = -std::numeric_limits<float>::infinity();

float rounded_up(double x) { return static_cast<float>(x * (1.0 + 4.0 * kUnit)); }
float to_nearest(float x) { return (x + 0x1.8p23f) - 0x1.8p23f; }  // |x| < 2²²

float largest_of(const float* x, int64_t n) {
  float largest = 0.0f;
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(x[i]));
  return largest;
}

// x ≈ scale·n with whole n of at most `most`; put(i, n_i).
struct Quantised {
  float scale = 0.0f;
  double norm = 0.0, kept = 0.0, lost = 0.0;  // ‖x‖, ‖scale·n‖, ‖x − scale·n‖
};
template <class Put>
Quantised quantise(const float* x, int64_t n, float most, const Put& put) {
  const float largest = largest_of(x, n);
  Quantised q;
  if (largest > 1e-30f) q.scale = largest / most;  // else 1/scale might be infinite
  const float over = q.scale == 0.0f ? 0.0f : 1.0f / q.scale;
  for (int64_t i = 0; i < n; ++i) {
    const float steps = std::clamp(to_nearest(x[i] * over), -most, most);
    put(i, static_cast<int32_t>(steps));
    const double is = static_cast<double>(x[i]);
    const double becomes = static_cast<double>(q.scale) * static_cast<double>(steps);
    q.norm += is * is;
    q.kept += becomes * becomes;
    q.lost += (is - becomes) * (is - becomes);
  }
  q.norm = std::sqrt(q.norm), q.kept = std::sqrt(q.kept), q.lost = std::sqrt(q.lost);
  return q;
}

void make_row(const Matrix& w, const float* bias, int64_t v, Screen& s) {
  const int64_t panel = v / kScreenPanel, lane = v % kScreenPanel;
  int8_t* q = s.q.data() + panel * s.pairs * 2 * kScreenPanel + 2 * lane;
  const Buffer<float> floats(s.cols);
  widen_rows({w.data, w.type, nullptr, w.cols, w.row}, &v, 1, floats.data());
  const Quantised row = quantise(floats.data(), s.cols, kSteps8, [&](int64_t i, int32_t n) {
    q[i / 2 * 2 * kScreenPanel + i % 2] = static_cast<int8_t>(n);
  });
  // An inner product of n terms is off by at most n units of ‖w‖·‖x‖, however it is summed.
  const double rounding = 2.0 * static_cast<double>(s.cols + 8) * kUnit;
  s.scale[v] = row.scale;
  s.norm[v] = rounded_up(row.kept);
  s.residual[v] = rounded_up(row.lost + rounding * row.norm);
  s.bias[v] = bias == nullptr ? 0.0f : bias[v];
}

// Whole steps of x two by two, few enough that no sum of products leaves 32 bits.
Quantised steps_of(const float* x, const Screen& s, const Buffer<int32_t>& pairs) {
  const float most = std::min(32767.0f, 0x1p30f / (kSteps8 * static_cast<float>(s.pairs)) - 1.0f);
  std::fill_n(pairs.data(), s.pairs, 0);
  return quantise(x, s.cols, most, [&](int64_t i, int32_t n) {
    const uint32_t half = static_cast<uint32_t>(n) & 0xffffu;
    pairs[i / 2] |= static_cast<int32_t>(half << (16 * (i % 2)));
  });
}

void approximate(const ScreenPass& pass) {
  constexpr int64_t kTask = 1 << 17;  // bytes of q: some microseconds
  const Screen& s = pass.screen;
  const int64_t panels = s.padded() / kScreenPanel;
  const int64_t each = std::max<int64_t>(1, kTask / (2 * kScreenPanel * s.pairs));
  const auto some = HWY_DYNAMIC_DISPATCH(Panels);
  parallel_for((panels + each - 1) / each,
               [&](int64_t task) { some(pass, task * each, std::min(panels, (task + 1) * each)); });
}

// The largest part·ε, or nearly, up to which rows have Σ (part·ε)² ≤ all² together: between
// all/√rows, which as many rows may have each, and all, halved by its logarithm.
float most_lost(const ScreenPass& pass, float all) {
  constexpr int kHalvings = 6;
  float fits = all / std::sqrt(static_cast<float>(pass.screen.padded())), exceeds = all;
  for (int i = 0; i < kHalvings; ++i) {
    const float between = std::sqrt(fits * exceeds);
    (HWY_DYNAMIC_DISPATCH(LostBelow)(pass, between) <= all * all ? fits : exceeds) = between;
  }
  return fits;
}

// From W itself, as the product of all its rows gives them, bit for bit: equals stay equals.
void compute(const std::vector<int64_t>& rows, const Matrix& w, const float* x,
             const ScreenPass& pass) {
  parallel_for(static_cast<int64_t>(rows.size()), 2 * w.cols, [&](int64_t i) {
    const int64_t v = rows[static_cast<size_t>(i)];
    gemm({.m = 1,
          .n = 1,
          .k = w.cols,
          .a = x,
          .a_row = w.cols,
          .b = static_cast<const char*>(w.data) + v * w.row * size_of(w.type),
          .b_row = 1,
          .b_col = w.row,
          .b_type = w.type,
          .c = pass.logits + v,
          .c_row = 1});
    pass.logits[v] += pass.screen.bias[v];
  });
}

}  // namespace

std::optional<Screen> make_screen(const Matrix& w, const float* bias) {
  Screen s;
  s.rows = w.rows, s.cols = w.cols, s.pairs = (w.cols + 1) / 2;
  const int64_t n = s.padded(), size = n * s.pairs * 2;
  s.q = Buffer<int8_t>(size);
  std::fill_n(s.q.data(), size, int8_t{0});
  for (Buffer<float>* row : {&s.scale, &s.residual, &s.norm, &s.bias}) {
    *row = Buffer<float>(n);
    std::fill_n(row->data(), n, row == &s.bias ? kNever : 0.0f);
  }
  parallel_for(n / kScreenPanel, 8 * kScreenPanel * w.cols, [&](int64_t panel) {
    const int64_t end = std::min(w.rows, (panel + 1) * kScreenPanel);
    for (int64_t v = panel * kScreenPanel; v < end; ++v) make_row(w, bias, v, s);
  });
  const auto finite = [](float x) { return std::isfinite(x); };
  if (!std::all_of(s.residual.data(), s.residual.data() + n, finite)) return std::nullopt;
  return s;
}

std::optional<Choice> choose(const Screen& s, const Matrix& w, const float* x,
                             std::span<const int64_t> never) {
  const Buffer<int32_t> pairs(s.pairs);
  const Quantised of_x = steps_of(x, s, pairs);
  if (!std::isfinite(static_cast<float>(of_x.norm))) return std::nullopt;
  const int64_t n = s.padded();
  const Buffer<float> room(3 * n);
  const ScreenPass pass{.screen = s,
                        .x = pairs.data(),
                        .step = of_x.scale,
                        .x_norm = rounded_up(of_x.norm),
                        .x_lost = rounded_up(of_x.lost),
                        .logits = room.data(),
                        .reach = room.data() + n,
                        .parts = room.data() + 2 * n};
  approximate(pass);
  for (const int64_t row : never) pass.parts[row] = kNever;
  const float low = HWY_DYNAMIC_DISPATCH(Largest)(pass.parts, n);
  const float largest = HWY_DYNAMIC_DISPATCH(Largest)(pass.logits, n);
  double sum = HWY_DYNAMIC_DISPATCH(SumOfParts)(pass, largest);
  if (!std::isfinite(low) || !std::isfinite(sum)) return std::nullopt;
  const auto all = static_cast<float>(std::sqrt(kLost * static_cast<double>(s.cols)) * sum);
  std::vector<int64_t> rows;
  HWY_DYNAMIC_DISPATCH(RowsToCompute)(pass, low, most_lost(pass, all), rows);
  compute(rows, w, x, pass);

  Choice best{.row = -1, .computed = static_cast<int64_t>(rows.size())};
  for (const int64_t v : rows) {
    const float logit = pass.logits[v];
    sum += std::exp(static_cast<double>(logit) - static_cast<double>(largest)) -
           static_cast<double>(pass.parts[v]);
    if (std::find(never.begin(), never.end(), v) != never.end()) continue;
    if (best.row < 0 || logit > best.logit) best.row = v, best.logit = logit;
  }
  best.log_sum = static_cast<double>(largest) + std::log(sum);
  return best;
}

}  // namespace fovea::kernels
#endif  // HWY_ONCE
