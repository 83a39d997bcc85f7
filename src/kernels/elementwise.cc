#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise.cc"
#include <hwy/foreach_target.h>
#include "kernels/scalar_size.h"
// Highway's headers follow the line above.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/threads.h"
#include "kernels/elementwise.h"
#include "kernels/math-inl.h"
#include "kernels/strided.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels {
namespace HWY_NAMESPACE {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

HWY_INLINE V One(D d) { return hn::Set(d, 1.0f); }
HWY_INLINE V Ones(D d, hn::Mask<D> m) { return hn::IfThenElseZero(m, One(d)); }

// 2u and its slope, u = √(2/π)·(x + 0.044715·x³)
HWY_INLINE V TwiceU(D d, V x) {
  const V cube = hn::Mul(hn::Mul(x, x), hn::Mul(x, hn::Set(d, 0.07135481283f)));
  return hn::MulAdd(x, hn::Set(d, 1.595769122f), cube);
}
HWY_INLINE V DTwiceU(D d, V x) {
  return hn::MulAdd(hn::Mul(x, x), hn::Set(d, 0.2140644385f), hn::Set(d, 1.595769122f));
}
// x·s, 0 where x is so low that s is 0: −∞·0 is none.
HWY_INLINE V Gated(D d, V x, V s) {
  return hn::Mul(hn::IfThenElse(hn::Lt(x, hn::Set(d, -100.0f)), hn::Zero(d), x), s);
}
// σ + x·σ·(1 − σ)·slope
HWY_INLINE V DGated(D d, V x, V s, V slope) {
  const V flat = hn::Mul(s, hn::Sub(One(d), s));
  return hn::MulAdd(hn::Mul(Gated(d, x, flat), slope), One(d), s);
}

// y = f(x): lanes past the end are computed from zeros and dropped.
template <int kOperands, class F>
HWY_INLINE void Map(const float* HWY_RESTRICT const* in, float* out, int64_t n, const F& f) {
  const D d;
  const int64_t N = static_cast<int64_t>(hn::Lanes(d));
  const auto apply = [&](const float* a, const float* b, const float* c) HWY_ATTR {
    const V x = hn::LoadU(d, a);
    if constexpr (kOperands == 1) return f(d, x);
    if constexpr (kOperands == 2) return f(d, x, hn::LoadU(d, b));
    if constexpr (kOperands == 3) return f(d, x, hn::LoadU(d, b), hn::LoadU(d, c));
  };
  int64_t i = 0;
  for (; i + N <= n; i += N) hn::StoreU(apply(in[0] + i, in[1] + i, in[2] + i), d, out + i);
  if (i == n) return;
  HWY_ALIGN float tail[4][HWY_MAX_BYTES / sizeof(float)] = {};
  for (int o = 0; o < kOperands; ++o) std::copy(in[o] + i, in[o] + n, tail[o]);
  hn::StoreU(apply(tail[0], tail[1], tail[2]), d, tail[3]);
  std::copy(tail[3], tail[3] + (n - i), out + i);
}

template <class F>
HWY_INLINE void MapScalar(const float* const* in, float* out, int64_t n, const F& f) {
  for (int64_t i = 0; i < n; ++i) out[i] = f(in[0][i], in[1][i]);
}

#define FOVEA_UNARY(expression)                      \
  return Map<1>(in, out, n, [=](D d, V a) HWY_ATTR { \
    (void)d;                                         \
    return expression;                               \
  })
#define FOVEA_BINARY(expression)                          \
  return Map<2>(in, out, n, [=](D d, V a, V b) HWY_ATTR { \
    (void)d;                                              \
    return expression;                                    \
  })
#define FOVEA_TERNARY(expression)                              \
  return Map<3>(in, out, n, [=](D d, V a, V b, V c) HWY_ATTR { \
    (void)d;                                                   \
    return expression;                                         \
  })

void Apply(Op op, const float* const* in, float* out, int64_t n, Numbers numbers) {
  const D tag;
  const V p = hn::Set(tag, numbers.p), q = hn::Set(tag, numbers.q);
  const V zero = hn::Zero(tag), one = One(tag), half = hn::Set(tag, 0.5f);
  switch (op) {
    case Op::affine:
      FOVEA_UNARY(hn::MulAdd(a, p, q));
    case Op::reverse_div:
      FOVEA_UNARY(hn::Div(p, a));
    case Op::power:
      return MapScalar(in, out, n, [=](float a, float) { return std::pow(a, numbers.p); });
    case Op::exp:
      FOVEA_UNARY(Exp(d, a));
    case Op::log:
      FOVEA_UNARY(Log(d, a));
    case Op::tanh:
      FOVEA_UNARY(Tanh(d, a));
    case Op::sigmoid:
      FOVEA_UNARY(Sigmoid(d, a));
    case Op::relu:
      FOVEA_UNARY(hn::IfThenElse(hn::Lt(a, zero), zero, a));
    case Op::gelu:
      // a·Φ(a), 0 at −∞
      FOVEA_UNARY(hn::Mul(hn::IfThenElse(hn::Lt(a, hn::Set(d, -20.0f)), zero, a), NormalCdf(d, a)));
    case Op::gelu_tanh:
      FOVEA_UNARY(Gated(d, a, Sigmoid(d, TwiceU(d, a))));
    case Op::silu:
      FOVEA_UNARY(Gated(d, a, Sigmoid(d, a)));
    case Op::sqrt:
      FOVEA_UNARY(hn::Sqrt(a));
    case Op::square:
      FOVEA_UNARY(hn::Mul(a, a));
    case Op::abs:
      FOVEA_UNARY(hn::Abs(a));
    case Op::elu:
      FOVEA_UNARY(hn::IfThenElse(hn::Gt(a, zero), a, hn::Mul(p, ExpM1(d, a))));
    case Op::clamp:
      FOVEA_UNARY(KeepNaN(d, a, hn::Min(hn::Max(a, p), q)));
    case Op::add:
      FOVEA_BINARY(hn::Add(a, b));
    case Op::sub:
      FOVEA_BINARY(hn::Sub(a, b));
    case Op::mul:
      FOVEA_BINARY(hn::Mul(a, b));
    case Op::div:
      FOVEA_BINARY(hn::Div(a, b));
    case Op::maximum:
      FOVEA_BINARY(KeepNaN(d, a, KeepNaN(d, b, hn::Max(a, b))));
    case Op::minimum:
      FOVEA_BINARY(KeepNaN(d, a, KeepNaN(d, b, hn::Min(a, b))));
    case Op::pow:
      return MapScalar(in, out, n, [](float a, float b) { return std::pow(a, b); });
    case Op::add_scaled:
      FOVEA_BINARY(hn::MulAdd(b, p, a));
    case Op::less:
      FOVEA_BINARY(Ones(d, hn::Lt(a, b)));
    case Op::less_equal:
      FOVEA_BINARY(Ones(d, hn::Le(a, b)));
    case Op::equal:
      FOVEA_BINARY(Ones(d, hn::Eq(a, b)));
    case Op::not_equal:
      FOVEA_BINARY(Ones(d, hn::Ne(a, b)));
    case Op::d_tanh:
      FOVEA_BINARY(hn::Mul(a, hn::NegMulAdd(b, b, one)));
    case Op::d_sigmoid:
      FOVEA_BINARY(hn::Mul(a, hn::NegMulAdd(b, b, b)));
    case Op::d_relu:
      FOVEA_BINARY(hn::IfThenElseZero(hn::Gt(b, zero), a));
    case Op::d_gelu:
      // Φ(b) + b·φ(b)
      FOVEA_BINARY(hn::Mul(
          a, hn::MulAdd(hn::Mul(b, hn::Set(d, 0.3989422804f)),
                        Exp(d, hn::Mul(hn::Mul(b, b), hn::Set(d, -0.5f))), NormalCdf(d, b))));
    case Op::d_gelu_tanh:
      FOVEA_BINARY(hn::Mul(a, DGated(d, b, Sigmoid(d, TwiceU(d, b)), DTwiceU(d, b))));
    case Op::d_silu:
      FOVEA_BINARY(hn::Mul(a, DGated(d, b, Sigmoid(d, b), One(d))));
    case Op::d_sqrt:
      FOVEA_BINARY(hn::Div(hn::Mul(a, half), b));
    case Op::d_square:
      FOVEA_BINARY(hn::Mul(hn::Add(a, a), b));
    case Op::d_abs:
      FOVEA_BINARY(
          hn::IfThenElse(hn::Gt(b, zero), a, hn::IfThenElseZero(hn::Lt(b, zero), hn::Neg(a))));
    case Op::d_elu:  // b is y: y + p below 0
      FOVEA_BINARY(hn::IfThenElse(hn::Gt(b, zero), a, hn::Mul(a, hn::Add(b, p))));
    case Op::d_clamp:
      FOVEA_BINARY(hn::IfThenElseZero(hn::And(hn::Ge(b, p), hn::Le(b, q)), a));
    case Op::d_log:
      FOVEA_BINARY(hn::Div(a, b));
    case Op::d_power:
      return MapScalar(in, out, n, [=](float a, float b) {
        return numbers.p == 0.0f ? 0.0f : a * numbers.p * std::pow(b, numbers.p - 1.0f);
      });
    case Op::where:
      FOVEA_TERNARY(hn::IfThenElse(hn::Ne(a, hn::Zero(d)), b, c));
    case Op::d_maximum:
      FOVEA_TERNARY(hn::Mul(a, hn::Add(hn::IfThenElseZero(hn::Gt(b, c), one),
                                       hn::IfThenElseZero(hn::Eq(b, c), half))));
  }
}

#undef FOVEA_UNARY
#undef FOVEA_BINARY
#undef FOVEA_TERNARY

}  // namespace HWY_NAMESPACE
}  // namespace fovea::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::kernels {

HWY_EXPORT(Apply);

namespace {

constexpr int64_t kChunk = 1 << 15;  // elements per task
constexpr int64_t kBlock = 1 << 10;  // elements gathered at a time

// A run of an operand as plain floats: in place when it lies so, else gathered.
const float* gather(const Source& source, int64_t at, int64_t stride, int64_t n, float* space) {
  if (source.type == Element::byte) {
    const auto* p = static_cast<const uint8_t*>(source.data) + at;
    for (int64_t i = 0; i < n; ++i) space[i] = p[i * stride] != 0 ? 1.0f : 0.0f;
    return space;
  }
  const float* p = static_cast<const float*>(source.data) + at;
  if (stride == 1) return p;
  if (stride == 0) {
    std::fill_n(space, n, *p);
  } else {
    for (int64_t i = 0; i < n; ++i) space[i] = p[i * stride];
  }
  return space;
}

void scatter(const float* values, const Target& out, int64_t at, int64_t stride, int64_t n) {
  if (out.type == Element::byte) {
    auto* p = static_cast<uint8_t*>(out.data) + at;
    for (int64_t i = 0; i < n; ++i) p[i * stride] = values[i] != 0.0f;
  } else {
    float* p = static_cast<float*>(out.data) + at;
    for (int64_t i = 0; i < n; ++i) p[i * stride] = values[i];
  }
}

}  // namespace

void elementwise(Op op, std::span<const int64_t> shape, std::initializer_list<Source> inputs,
                 Target out, Numbers numbers) {
  const Source* source = inputs.begin();
  const int operands = static_cast<int>(inputs.size());
  const int64_t* strides[kMaxOperands];
  for (int o = 0; o < operands; ++o) strides[o] = source[o].strides;
  strides[operands] = out.strides;
  const StridedLoop loop(shape, std::span(strides, operands + 1));
  const bool out_plain = out.type == Element::f32 && loop.inner_stride(operands) == 1;
  bool plain = out_plain;
  for (int o = 0; o < operands; ++o) {
    plain &= source[o].type == Element::f32 && loop.inner_stride(o) == 1;
  }
  parallel_for((loop.numel + kChunk - 1) / kChunk, [&](int64_t chunk) {
    alignas(64) float space[kMaxOperands][kBlock];
    const auto run = [&](const int64_t* at, int64_t n) {
      const int64_t block = plain ? n : kBlock;
      for (int64_t i = 0; i < n; i += block) {
        const int64_t m = std::min(block, n - i);
        const float* in[3] = {};
        for (int o = 0; o < operands; ++o) {
          const int64_t stride = loop.inner_stride(o);
          in[o] = gather(source[o], at[o] + i * stride, stride, m, space[o]);
        }
        for (int o = operands; o < 3; ++o) in[o] = in[0];
        const int64_t stride = loop.inner_stride(operands);
        const int64_t to = at[operands] + i * stride;
        float* y = out_plain ? static_cast<float*>(out.data) + to : space[kMaxOperands - 1];
        HWY_DYNAMIC_DISPATCH(Apply)(op, in, y, m, numbers);
        if (!out_plain) scatter(y, out, to, stride, m);
      }
    };
    loop.for_runs(chunk * kChunk, std::min(loop.numel, (chunk + 1) * kChunk), run);
  });
}

void compare_ids(Op op, int64_t n, const int64_t* a, const int64_t* b, uint8_t* out) {
  const auto by = [&](const auto& holds) {
    for (int64_t i = 0; i < n; ++i) out[i] = holds(a[i], b[i]);
  };
  if (op == Op::less) return by(std::less<>());
  if (op == Op::less_equal) return by(std::less_equal<>());
  if (op == Op::equal) return by(std::equal_to<>());
  by(std::not_equal_to<>());
}

}  // namespace fovea::kernels
#endif  // HWY_ONCE
