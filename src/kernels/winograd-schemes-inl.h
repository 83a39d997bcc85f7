// Winograd's short convolutions in one dimension, as vectors of channels:
//   y = Aᵀ[(G·w) ⊙ (Bᵀ·x)], and turned over dw = Gᵀ[(A·dy) ⊙ (Bᵀ·x)].
// A scheme takes kIn numbers of x, kStep further for each tile, and gives kOut of y by kPoints
// products. docs/kernels.md has what the points cost in accuracy.
#if defined(FOVEA_WINOGRAD_SCHEMES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_WINOGRAD_SCHEMES_INL_H_
#undef FOVEA_WINOGRAD_SCHEMES_INL_H_
#else
#define FOVEA_WINOGRAD_SCHEMES_INL_H_
#endif

#include <hwy/highway.h>

#include "kernels/gemm-tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace {

constexpr int kTaps = 3;

HWY_INLINE Vec Times(float a, Vec x) { return hn::Mul(hn::Set(F(), a), x); }
HWY_INLINE Vec Plus(float a, Vec x, Vec sum) { return hn::MulAdd(hn::Set(F(), a), x, sum); }

// Three taps, one by one: four places by six products at 0, ±¾, ±1½ and ∞. With ±1 and ±2 the
// transforms are rounder and the error twice as large.
struct FourPlaces {
  static constexpr int kIn = 6, kStep = 4, kPoints = 6, kOut = 4;
  static constexpr float a = 0.75f, b = 1.5f, a2 = a * a, b2 = b * b;
  // 1 / Π (p − q) of a point p and all others q
  static constexpr float at_0 = 1 / (a2 * b2), at_a = 1 / (2 * a2 * (a2 - b2)),
                         at_b = 1 / (2 * b2 * (b2 - a2));

  // Bᵀ: Π (x − q) of all other points q, as a polynomial whose powers are the numbers.
  static HWY_INLINE void Points(const Vec* d, Vec* v) {
    const Vec even_a = Plus(-b2, d[2], d[4]), odd_a = Plus(-b2, d[1], d[3]);
    const Vec even_b = Plus(-a2, d[2], d[4]), odd_b = Plus(-a2, d[1], d[3]);
    v[0] = Plus(a2 * b2, d[0], Plus(-(a2 + b2), d[2], d[4]));
    v[1] = Plus(a, odd_a, even_a);
    v[2] = Plus(-a, odd_a, even_a);
    v[3] = Plus(b, odd_b, even_b);
    v[4] = Plus(-b, odd_b, even_b);
    v[5] = Plus(a2 * b2, d[1], Plus(-(a2 + b2), d[3], d[5]));
  }
  // Aᵀ: place i has the points' powers i.
  static HWY_INLINE void Places(const Vec* m, Vec* y) {
    const Vec sum_a = hn::Add(m[1], m[2]), difference_a = hn::Sub(m[1], m[2]);
    const Vec sum_b = hn::Add(m[3], m[4]), difference_b = hn::Sub(m[3], m[4]);
    y[0] = hn::Add(m[0], hn::Add(sum_a, sum_b));
    y[1] = Plus(a, difference_a, Times(b, difference_b));
    y[2] = Plus(a2, sum_a, Times(b2, sum_b));
    y[3] = Plus(a2 * a, difference_a, Plus(b2 * b, difference_b, m[5]));
  }
  // A
  static HWY_INLINE void PointsOfPlaces(const Vec* y, Vec* m) {
    const Vec even_a = Plus(a2, y[2], y[0]), odd_a = Plus(a2, y[3], y[1]);
    const Vec even_b = Plus(b2, y[2], y[0]), odd_b = Plus(b2, y[3], y[1]);
    m[0] = y[0];
    m[1] = Plus(a, odd_a, even_a);
    m[2] = Plus(-a, odd_a, even_a);
    m[3] = Plus(b, odd_b, even_b);
    m[4] = Plus(-b, odd_b, even_b);
    m[5] = y[3];
  }
  // G
  static HWY_INLINE void Weights(const Vec* w, Vec* u) {
    const Vec even_a = Times(at_a, Plus(a2, w[2], w[0])),
              even_b = Times(at_b, Plus(b2, w[2], w[0]));
    u[0] = Times(at_0, w[0]);
    u[1] = Plus(a * at_a, w[1], even_a);
    u[2] = Plus(-a * at_a, w[1], even_a);
    u[3] = Plus(b * at_b, w[1], even_b);
    u[4] = Plus(-b * at_b, w[1], even_b);
    u[5] = w[2];
  }
  // Gᵀ
  static HWY_INLINE void Taps(const Vec* u, Vec* w) {
    const Vec sum_a = Times(at_a, hn::Add(u[1], u[2])), sum_b = Times(at_b, hn::Add(u[3], u[4]));
    w[0] = Plus(at_0, u[0], hn::Add(sum_a, sum_b));
    w[1] = Plus(a * at_a, hn::Sub(u[1], u[2]), Times(b * at_b, hn::Sub(u[3], u[4])));
    w[2] = Plus(a2, sum_a, Plus(b2, sum_b, u[5]));
  }
};

// Three taps at every second place: those that meet even numbers are a convolution of two taps,
// two places of which take three products; the middle one takes two.
struct TwoApart {
  static constexpr int kIn = 5, kStep = 4, kPoints = 5, kOut = 2;

  static HWY_INLINE void Points(const Vec* d, Vec* v) {
    v[0] = hn::Sub(d[0], d[2]);
    v[1] = d[2];
    v[2] = hn::Sub(d[4], d[2]);
    v[3] = d[1];
    v[4] = d[3];
  }
  static HWY_INLINE void Places(const Vec* m, Vec* y) {
    y[0] = hn::Add(hn::Add(m[0], m[1]), m[3]);
    y[1] = hn::Add(hn::Add(m[2], m[1]), m[4]);
  }
  static HWY_INLINE void PointsOfPlaces(const Vec* y, Vec* m) {
    m[0] = y[0];
    m[1] = hn::Add(y[0], y[1]);
    m[2] = y[1];
    m[3] = y[0];
    m[4] = y[1];
  }
  static HWY_INLINE void Weights(const Vec* w, Vec* u) {
    u[0] = w[0];
    u[1] = hn::Add(w[0], w[2]);
    u[2] = w[2];
    u[3] = w[1];
    u[4] = w[1];
  }
  static HWY_INLINE void Taps(const Vec* u, Vec* w) {
    w[0] = hn::Add(u[0], u[1]);
    w[1] = hn::Add(u[3], u[4]);
    w[2] = hn::Add(u[1], u[2]);
  }
};

// Its gradient of x, margins of one: dx at 2i has the middle tap of dy[i], at 2i + 1 the last one
// of dy[i] and the first of dy[i+1].
struct Spread {
  static constexpr int kIn = 3, kStep = 2, kPoints = 5, kOut = 4;

  static HWY_INLINE void Points(const Vec* d, Vec* v) {
    v[0] = hn::Sub(d[0], d[1]);
    v[1] = d[1];
    v[2] = hn::Sub(d[2], d[1]);
    v[3] = d[0];
    v[4] = d[1];
  }
  static HWY_INLINE void Places(const Vec* m, Vec* y) {
    y[0] = m[3];
    y[1] = hn::Add(m[0], m[1]);
    y[2] = m[4];
    y[3] = hn::Add(m[2], m[1]);
  }
  static HWY_INLINE void Weights(const Vec* w, Vec* u) {
    u[0] = w[2];
    u[1] = hn::Add(w[0], w[2]);
    u[2] = w[0];
    u[3] = w[1];
    u[4] = w[1];
  }
};

// f down the columns of a square of kFrom numbers, then along its rows: kTo by kTo.
template <int kFrom, int kTo, class Of, class Get, class Put>
HWY_INLINE void BothWays(Of f, const Get& get, const Put& put) {
  Vec half[kTo][kFrom];
  HWY_UNROLL(6)
  for (int j = 0; j < kFrom; ++j) {
    Vec from[kFrom], to[kTo];
    HWY_UNROLL(6)
    for (int i = 0; i < kFrom; ++i) from[i] = get(i, j);
    f(from, to);
    HWY_UNROLL(6)
    for (int i = 0; i < kTo; ++i) half[i][j] = to[i];
  }
  HWY_UNROLL(6)
  for (int i = 0; i < kTo; ++i) {
    Vec to[kTo];
    f(half[i], to);
    HWY_UNROLL(6)
    for (int j = 0; j < kTo; ++j) put(i, j, to[j]);
  }
}

}  // namespace
}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_WINOGRAD_SCHEMES_INL_H_
