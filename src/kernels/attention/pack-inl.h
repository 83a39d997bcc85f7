// Copies that turn strided inputs into what the tiles read: rows padded to whole vectors, and
// panels of 64 keys side by side, [panel][width][64], so that lanes are keys.
#if defined(FOVEA_ATTENTION_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_ATTENTION_PACK_INL_H_
#undef FOVEA_ATTENTION_PACK_INL_H_
#else
#define FOVEA_ATTENTION_PACK_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "kernels/attention/problem.h"
#include "kernels/attention/simd-inl.h"
#include "kernels/load-inl.h"
#include "kernels/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

// n rows of `width` elements; in 16 bits where `halves` is there instead of `data`.
struct Rows {
  const float* data;
  int64_t row, c;
  const uint16_t* halves = nullptr;
  Number type = Number::f32;
};

// Rows to write, `ld` apart.
struct DenseRows {
  float* data;
  int64_t ld;
};

inline Rows RowsOf(const View<const float>& v, int64_t b, int64_t h, int64_t first = 0) {
  return {v.row(b, h, first), v.r, v.c};
}

inline Rows RowsOf(const HalfView& v, int64_t b, int64_t h, int64_t first = 0) {
  return {nullptr, v.r, v.c, v.row(b, h, first), v.type};
}

inline Rows QueriesOf(const AttentionProblem& p, int64_t b, int64_t h, int64_t first = 0) {
  return p.q16 ? RowsOf(p.q16, b, h, first) : RowsOf(p.q, b, h, first);
}
inline Rows KeysOf(const AttentionProblem& p, int64_t b, int64_t hk, int64_t first = 0) {
  return p.k16 ? RowsOf(p.k16, b, hk, first) : RowsOf(p.k, b, hk, first);
}
inline Rows ValuesOf(const AttentionProblem& p, int64_t b, int64_t hk, int64_t first = 0) {
  return p.v16 ? RowsOf(p.v16, b, hk, first) : RowsOf(p.v, b, hk, first);
}

// use(row i) as the numbers that it has.
template <class Use>
HWY_INLINE void AsNumbers(const Rows& from, int64_t i, const Use& use) {
  if (!from.halves) return use(from.data + i * from.row);
  const uint16_t* row = from.halves + i * from.row;
  if (from.type == Number::f16) return use(reinterpret_cast<const F16*>(row));
  use(reinterpret_cast<const Bf16*>(row));
}

// Elements first … first + n of row i, of 16 bits, as floats.
HWY_NOINLINE void WidenRow(const Rows& from, int64_t i, int64_t first, int64_t n, float* to) {
  AsNumbers(from, i, [&](const auto* row) HWY_ATTR {
    const auto* x = row + first * from.c;
    int64_t k = 0;
    for (; from.c == 1 && k + kLanes <= n; k += kLanes) hn::StoreU(Floats(F(), x + k), F(), to + k);
    for (; k < n; ++k) to[k] = FloatOf(x + k * from.c);
  });
}

// Additive scores take features two at a time; an odd width gets one more row, of 0.
constexpr int64_t PanelRows(int64_t width) { return RoundUp(width, 2); }

inline int64_t PanelFloats(int64_t n, int64_t width) {
  return RoundUp(n, kPanelKeys) * PanelRows(width);
}

// The largest |x| seen, and a sum that is 0 only while all of them were finite.
struct Magnitude {
  Vec most, nans;
  HWY_INLINE void See(Vec x) {
    most = hn::Max(most, hn::Abs(x));
    nans = hn::MulAdd(hn::Zero(F()), x, nans);
  }
  HWY_INLINE float Largest() const { return SumOf(nans) == 0.0f ? MaxOf(most) : kInf; }
};

HWY_INLINE Magnitude NothingSeen() { return {hn::Zero(F()), hn::Zero(F())}; }

// x ← e^{2x}, padding included.
HWY_INLINE void ExpTwice(float* x, int64_t n) {
  const F d;
  for (int64_t i = 0; i < n; i += kLanes) {
    const Vec v = hn::LoadU(d, x + i);
    hn::StoreU(FastExpTo88(F(), hn::Add(v, v)), d, x + i);
  }
}

// How keys change on their way into panels: times a factor, or e^{2x} with a look at the size of x.
struct PanelChange {
  float factor = 1.0f;
  Magnitude* exponential = nullptr;
};

HWY_INLINE float Times(float x, float factor) { return x * factor; }
HWY_INLINE float Times(float x, Unscaled) { return x; }

// `width` features of up to 16 keys, transposed, and 0 up to the next whole vector.
template <class Factor>
HWY_INLINE void PackBlock(Rows from, int64_t n, int64_t width, Factor factor, float* to) {
  const int64_t padded = RoundUp(n, kLanes);
  if (n < padded) {  // the last vector of every row, before the keys go into it
    for (int64_t d = 0; d < width; ++d) {
      hn::StoreU(hn::Zero(F()), F(), to + d * kPanelKeys + padded - kLanes);
    }
  }
  int64_t j = 0;
  if (from.c == 1 && width == kSquare && n == kSquare) {
    TransposeSquare(from.data, from.row, factor, to, kPanelKeys);
    j = kSquare;
  }
  const int64_t whole = from.c == 1 ? RoundDown(width, 4) : 0;
  for (; j + 4 <= n; j += 4) {
    const float* row = from.data + j * from.row;
    for (int64_t d = 0; d < whole; d += 4) {
      Transpose4x4(row + d, from.row, factor, to + d * kPanelKeys + j, kPanelKeys);
    }
    for (int64_t d = whole; d < width; ++d) {
      for (int64_t i = 0; i < 4; ++i) {
        to[d * kPanelKeys + j + i] = Times(row[i * from.row + d * from.c], factor);
      }
    }
  }
  for (; j < n; ++j) {
    for (int64_t d = 0; d < width; ++d) {
      to[d * kPanelKeys + j] = Times(from.data[j * from.row + d * from.c], factor);
    }
  }
}

// e^{2x} of a packed block.
HWY_INLINE void ExpBlock(int64_t n, int64_t width, Magnitude& seen, float* block) {
  const int64_t padded = RoundUp(n, kLanes);
  for (int64_t d = 0; d < width; ++d) {
    for (int64_t i = 0; i < padded; i += kLanes) {
      seen.See(hn::LoadU(F(), block + d * kPanelKeys + i));
    }
    ExpTwice(block + d * kPanelKeys, padded);
  }
}

// 16 keys at a time, each from its first feature to its last: as many streams as a core follows.
HWY_NOINLINE void PackPanels(Rows from, int64_t n, int64_t width, const PanelChange& change,
                             float* to) {
  const int64_t rows = PanelRows(width);
  HWY_ALIGN float block[16 * 16];
  for (int64_t j = 0; j < n; j += kPanelKeys, to += rows * kPanelKeys) {
    const int64_t m = std::min(kPanelKeys, n - j);
    for (int64_t i = 0; i < m; i += 16) {
      const int64_t keys = std::min<int64_t>(16, m - i), first = j + i;
      for (int64_t d = 0; d < width; d += 16) {
        const int64_t some = std::min<int64_t>(16, width - d);
        Rows part{block, 16, 1};
        if (from.halves) {
          for (int64_t r = 0; r < keys; ++r) WidenRow(from, first + r, d, some, block + r * 16);
        } else {
          part = {from.data + first * from.row + d * from.c, from.row, from.c};
        }
        float* packed = to + d * kPanelKeys + i;
        PackBlock(part, keys, some, change.factor, packed);
        if (change.exponential) ExpBlock(keys, some, *change.exponential, packed);
      }
    }
    for (int64_t d = width; d < rows; ++d)
      FillRow(to + d * kPanelKeys, 0, RoundUp(m, kLanes), 0.0f);
  }
}

// to[i][d] = factor·from[i][d], rows padded with 0 to `ld`.
HWY_NOINLINE void PackRows(Rows from, int64_t n, int64_t width, float factor, DenseRows out) {
  const int64_t whole = RoundUp(width, kLanes);
  for (int64_t i = 0; i < n; ++i) {
    float* to = out.data + i * out.ld;
    if (from.c == 1) {
      AsNumbers(from, i,
                [&](const auto* row) HWY_ATTR { PackRow(row, width, hn::Set(F(), factor), to); });
      FillRow(to, whole, out.ld, 0.0f);
      continue;
    }
    AsNumbers(from, i, [&](const auto* row) HWY_ATTR {
      for (int64_t k = 0; k < width; ++k) to[k] = FloatOf(row + k * from.c) * factor;
    });
    FillRow(to, width, out.ld, 0.0f);
  }
}

// Rows that tiles can read as they are need no copy.
inline bool ReadableInPlace(Rows from, int64_t width) {
  return from.c == 1 && width % kLanes == 0 && !from.halves;
}

// Of 16 bits: the exponent of what is not finite has all its bits.
HWY_NOINLINE bool AllHalvesFinite(const Rows& from, int64_t n, int64_t width) {
  const uint16_t exponent = from.type == Number::f16 ? 0x7c00 : 0x7f80;
  uint16_t most = 0;
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t* row = from.halves + i * from.row;
    if (from.c == 1) {
      for (int64_t k = 0; k < width; ++k) most = std::max<uint16_t>(most, row[k] & 0x7fff);
    } else {
      for (int64_t k = 0; k < width; ++k) most = std::max<uint16_t>(most, row[k * from.c] & 0x7fff);
    }
  }
  return most < exponent;
}

// 0·x is 0 for every finite x, NaN otherwise.
HWY_NOINLINE bool AllFinite(Rows from, int64_t n, int64_t width) {
  if (from.halves) return AllHalvesFinite(from, n, width);
  const F d;
  Vec sum = hn::Zero(d);
  float rest = 0.0f;
  for (int64_t i = 0; i < n; ++i) {
    const float* row = from.data + i * from.row;
    int64_t k = 0;
    if (from.c == 1) {
      for (; k + kLanes <= width; k += kLanes)
        sum = hn::MulAdd(hn::Zero(d), hn::LoadU(d, row + k), sum);
    }
    for (; k < width; ++k) rest += 0.0f * row[k * from.c];
  }
  return SumOf(sum) + rest == 0.0f;
}

// The largest |x|; infinite where something is not finite.
HWY_NOINLINE float LargestMagnitude(Rows from, int64_t n, int64_t width) {
  Magnitude seen = NothingSeen();
  for (int64_t i = 0; i < n; ++i) {
    const float* row = from.data + i * from.row;
    int64_t k = 0;
    for (; from.c == 1 && k + kLanes <= width; k += kLanes) seen.See(hn::LoadU(F(), row + k));
    for (; k < width; ++k) seen.See(hn::Set(F(), row[k * from.c]));
  }
  return seen.Largest();
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_ATTENTION_PACK_INL_H_
