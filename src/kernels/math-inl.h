// Functions of float vectors. All but the first two are exact to a few units in the last place,
// with the limits and NaN of <cmath>. Those two leave out what the weights of attention never need:
//   FastExpTo88       x ≤ 88, and 0 below −87   12 instructions (Exp: 27)
//   FastLogOfNormal   positive normal numbers   16 (Log: 32)
// Included once per instruction set.
#if defined(FOVEA_KERNELS_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_KERNELS_MATH_INL_H_
#undef FOVEA_KERNELS_MATH_INL_H_
#else
#define FOVEA_KERNELS_MATH_INL_H_
#endif

#include <hwy/highway.h>

#include <limits>

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// e^x for −∞ ≤ x ≤ 88; below −87 exactly 0, NaN stays NaN. Relative error < 2e-7.
// 2^n from the integer part, a degree-5 polynomial for 2^f, |f| ≤ ½. Multiplied, as a NaN stays one
// then whatever its bits are; n added to the exponent's bits can make it a number.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V FastExpTo88(D d, V x) {
  const hn::RebindToSigned<D> di;
  // 1.5·2²³, and the exponent's bias: adding it rounds to an integer, whose last bits are n + 127.
  const V magic = hn::Set(d, 12582912.0f + 127.0f);
  const V log2e = hn::Set(d, 1.44269504088896341f);
  const V rounded = hn::MulAdd(x, log2e, magic);
  const V f = hn::MulSub(x, log2e, hn::Sub(rounded, magic));
  V p = hn::Set(d, 1.32647250e-3f);
  p = hn::MulAdd(p, f, hn::Set(d, 9.67151299e-3f));
  p = hn::MulAdd(p, f, hn::Set(d, 5.55073358e-2f));
  p = hn::MulAdd(p, f, hn::Set(d, 2.40222424e-1f));
  p = hn::MulAdd(p, f, hn::Set(d, 6.93147004e-1f));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0f));
  const V power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, rounded)));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.0f)), hn::Mul(p, power));
}

// log x for positive normal x; relative error < 3e-7 away from 1, absolute near it.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V FastLogOfNormal(D d, V x) {
  const hn::RebindToSigned<D> di;
  // x = 2^e·m with m in [√½, √2): the offset moves the split from 1 to √½.
  const auto bits = hn::Sub(hn::BitCast(di, x), hn::Set(di, 0x3f3504f3));
  const V e = hn::ConvertTo(d, hn::ShiftRight<23>(bits));
  const auto fraction = hn::Add(hn::And(bits, hn::Set(di, 0x7fffff)), hn::Set(di, 0x3f3504f3));
  const V m = hn::Sub(hn::BitCast(d, fraction), hn::Set(d, 1.0f));
  // log(1+m) = 2·atanh(z), z = m/(2+m); |z| ≤ 0.172.
  const V z = hn::Div(m, hn::Add(m, hn::Set(d, 2.0f)));
  const V zz = hn::Mul(z, z);
  V p = hn::Set(d, 2.0f / 9);
  p = hn::MulAdd(p, zz, hn::Set(d, 2.0f / 7));
  p = hn::MulAdd(p, zz, hn::Set(d, 2.0f / 5));
  p = hn::MulAdd(p, zz, hn::Set(d, 2.0f / 3));
  p = hn::MulAdd(hn::Mul(p, zz), z, hn::Add(z, z));
  return hn::MulAdd(e, hn::Set(d, 0.693147180559945f), p);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V KeepNaN(D, V x, V y) {
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

// 2^k for whole k in −126 … 127.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V PowerOfTwo(D d, hn::Vec<hn::RebindToSigned<D>> k) {
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(k, hn::Set(di, 127))));
}

// e^x = 2^k·e^r with k = round(x/ln 2), |r| ≤ ln 2/2. Gives k, and e^r − 1 by its series.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ReducedExpM1(D d, V x, hn::Vec<hn::RebindToSigned<D>>& k) {
  k = hn::NearestInt(hn::Mul(x, hn::Set(d, 1.442695041f)));
  const V kf = hn::ConvertTo(d, k);
  V r = hn::NegMulAdd(kf, hn::Set(d, 0.693145752f), x);  // ln 2 in two parts
  r = hn::NegMulAdd(kf, hn::Set(d, 1.42860677e-6f), r);
  V s = hn::Set(d, 1.0f / 5040);
  s = hn::MulAdd(s, r, hn::Set(d, 1.0f / 720));
  s = hn::MulAdd(s, r, hn::Set(d, 1.0f / 120));
  s = hn::MulAdd(s, r, hn::Set(d, 1.0f / 24));
  s = hn::MulAdd(s, r, hn::Set(d, 1.0f / 6));
  s = hn::MulAdd(s, r, hn::Set(d, 0.5f));
  return hn::MulAdd(hn::Mul(s, r), r, r);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp(D d, V x) {
  const V inside = hn::Min(hn::Max(x, hn::Set(d, -104.0f)), hn::Set(d, 89.0f));
  hn::Vec<hn::RebindToSigned<D>> k;
  const V e = hn::Add(ReducedExpM1(d, inside, k), hn::Set(d, 1.0f));
  const auto half = hn::ShiftRight<1>(k);  // two factors reach denormals and infinity
  const V y = hn::Mul(hn::Mul(e, PowerOfTwo(d, half)), PowerOfTwo(d, hn::Sub(k, half)));
  return KeepNaN(d, x, y);
}

// e^x − 1 for x ≤ 88, exact near 0: 2^k·(e^r − 1) + (2^k − 1).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ExpM1(D d, V x) {
  const V inside = hn::Min(hn::Max(x, hn::Set(d, -30.0f)), hn::Set(d, 88.0f));
  hn::Vec<hn::RebindToSigned<D>> k;
  const V e = ReducedExpM1(d, inside, k);
  const V two_k = PowerOfTwo(d, k);
  const V y = hn::MulAdd(two_k, e, hn::Sub(two_k, hn::Set(d, 1.0f)));
  return KeepNaN(d, x, y);
}

// tanh|x| = −m/(m + 2), m = e^(−2|x|) − 1.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Tanh(D d, V x) {
  const V m = ExpM1(d, hn::Mul(hn::Abs(x), hn::Set(d, -2.0f)));
  const V y = hn::Div(hn::Neg(m), hn::Add(m, hn::Set(d, 2.0f)));
  return KeepNaN(d, x, hn::CopySign(y, x));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, Exp(d, hn::Neg(x))));
}

// x = 2^k·m with m in [√½, √2); ln x = k·ln 2 + 2·artanh((m−1)/(m+1)).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Log(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V smallest_normal = hn::Set(d, std::numeric_limits<float>::min());
  const auto tiny = hn::Lt(x, smallest_normal);
  const V scaled = hn::IfThenElse(tiny, hn::Mul(x, hn::Set(d, 8388608.0f)), x);
  const auto bits = hn::BitCast(di, scaled);
  const auto over_root_half = hn::Sub(bits, hn::Set(di, 0x3f3504f3));
  auto k = hn::ShiftRight<23>(over_root_half);
  const V m = hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(k)));
  const V kf = hn::Sub(hn::ConvertTo(d, k), hn::IfThenElseZero(tiny, hn::Set(d, 23.0f)));
  const V one = hn::Set(d, 1.0f);
  const V s = hn::Div(hn::Sub(m, one), hn::Add(m, one));
  const V z = hn::Mul(s, s);
  V p = hn::MulAdd(z, hn::Set(d, 2.0f / 9), hn::Set(d, 2.0f / 7));
  p = hn::MulAdd(z, p, hn::Set(d, 2.0f / 5));
  p = hn::MulAdd(z, p, hn::Set(d, 2.0f / 3));
  V y = hn::MulAdd(hn::Mul(z, s), p, hn::Mul(kf, hn::Set(d, 1.42860677e-6f)));
  y = hn::Add(y, hn::Add(s, s));
  y = hn::MulAdd(kf, hn::Set(d, 0.693145752f), y);
  const V inf = hn::Set(d, std::numeric_limits<float>::infinity());
  const V zero = hn::Zero(d);
  y = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(inf), y);
  y = hn::IfThenElse(hn::Eq(x, inf), inf, y);
  y = hn::IfThenElse(hn::Lt(x, zero), hn::Set(d, std::numeric_limits<float>::quiet_NaN()), y);
  return KeepNaN(d, x, y);
}

// Φ(x), the normal distribution: ½·erfc(|z|) = ½·e^(−z²)·t·P(t) below 0, z = x/√2,
// t = 1/(1 + 0.4·|z|); P fits erfc to 7e−8 of its value over |z| ≤ 10.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V NormalCdf(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V half = hn::Set(d, 0.5f);
  const V z = hn::Abs(hn::Mul(x, hn::Set(d, 0.7071067812f)));
  const V t = hn::Div(one, hn::MulAdd(z, hn::Set(d, 0.4f), one));
  V p = hn::Set(d, 0.0419418029f);
  p = hn::MulAdd(p, t, hn::Set(d, -0.1435891241f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.0905594453f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.0806835741f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.0846026987f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.1914151311f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.2023696452f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.2263791263f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.2256377637f));
  const V e = Exp(d, hn::Mul(hn::Mul(x, x), hn::Set(d, -0.5f)));
  const V below = hn::Mul(hn::Mul(half, e), hn::Mul(t, p));
  return KeepNaN(d, x, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), below, hn::Sub(one, below)));
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
