// Copies that turn strided inputs into what the tiles read: rows padded to whole vectors, and
// panels of 64 keys side by side, [panel][width][64], so that lanes are keys.
#if defined(FOVEA_ATTENTION_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_ATTENTION_PACK_INL_H_
#undef FOVEA_ATTENTION_PACK_INL_H_
#else
#define FOVEA_ATTENTION_PACK_INL_H_
#endif

#include "kernels/attention/problem.h"
#include "kernels/attention/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

// n rows of `width` elements.
struct Rows {
  const float* data;
  int64_t row, c;
};

// Rows to write, `ld` apart.
struct DenseRows {
  float* data;
  int64_t ld;
};

inline Rows RowsOf(const View<const float>& v, int64_t b, int64_t h, int64_t first = 0) {
  return {v.row(b, h, first), v.r, v.c};
}

// Additive scores take features two at a time; an odd width gets one more row, of 0.
constexpr int64_t PanelRows(int64_t width) { return RoundUp(width, 2); }

inline int64_t PanelFloats(int64_t n, int64_t width) {
  return RoundUp(n, kPanel) * PanelRows(width);
}

HWY_INLINE void Transpose4x4(const float* from, int64_t row, float factor, float* to,
                             int64_t to_row) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t i = 0; i < 16; ++i) to[i % 4 * to_row + i / 4] = from[i / 4 * row + i % 4] * factor;
#else
  const hn::FixedTag<float, 4> d;
  const auto f = hn::Set(d, factor);
  const auto r0 = hn::Mul(hn::LoadU(d, from), f), r1 = hn::Mul(hn::LoadU(d, from + row), f);
  const auto r2 = hn::Mul(hn::LoadU(d, from + 2 * row), f);
  const auto r3 = hn::Mul(hn::LoadU(d, from + 3 * row), f);
  const auto t0 = hn::InterleaveLower(d, r0, r1), t1 = hn::InterleaveUpper(d, r0, r1);
  const auto t2 = hn::InterleaveLower(d, r2, r3), t3 = hn::InterleaveUpper(d, r2, r3);
  hn::StoreU(hn::ConcatLowerLower(d, t2, t0), d, to);
  hn::StoreU(hn::ConcatUpperUpper(d, t2, t0), d, to + to_row);
  hn::StoreU(hn::ConcatLowerLower(d, t3, t1), d, to + 2 * to_row);
  hn::StoreU(hn::ConcatUpperUpper(d, t3, t1), d, to + 3 * to_row);
#endif
}

#undef FOVEA_TRANSPOSES_16
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
#define FOVEA_TRANSPOSES_16 1
// 16 rows of 16: 4×4 inside 128-bit blocks, then 4×4 of the blocks.
HWY_INLINE void Transpose16x16(const float* from, int64_t row, Vec factor, float* to,
                               int64_t to_row) {
  const F d;
  const hn::RepartitionToWide<I> d64;
  Vec out[4][4];  // [i][g]: block b holds column 4b+i of rows 4g … 4g+3
  HWY_UNROLL(4)
  for (int g = 0; g < 4; ++g) {
    const float* at = from + 4 * g * row;
    const Vec r0 = hn::Mul(hn::LoadU(d, at), factor), r1 = hn::Mul(hn::LoadU(d, at + row), factor);
    const Vec r2 = hn::Mul(hn::LoadU(d, at + 2 * row), factor);
    const Vec r3 = hn::Mul(hn::LoadU(d, at + 3 * row), factor);
    const auto t0 = hn::BitCast(d64, hn::InterleaveLower(d, r0, r1));
    const auto t1 = hn::BitCast(d64, hn::InterleaveUpper(d, r0, r1));
    const auto t2 = hn::BitCast(d64, hn::InterleaveLower(d, r2, r3));
    const auto t3 = hn::BitCast(d64, hn::InterleaveUpper(d, r2, r3));
    out[0][g] = hn::BitCast(d, hn::InterleaveLower(d64, t0, t2));
    out[1][g] = hn::BitCast(d, hn::InterleaveUpper(d64, t0, t2));
    out[2][g] = hn::BitCast(d, hn::InterleaveLower(d64, t1, t3));
    out[3][g] = hn::BitCast(d, hn::InterleaveUpper(d64, t1, t3));
  }
  HWY_UNROLL(4)
  for (int i = 0; i < 4; ++i) {
    const Vec* o = out[i];
    const Vec x0 = hn::ConcatLowerLower(d, o[2], o[0]), x1 = hn::ConcatUpperUpper(d, o[2], o[0]);
    const Vec y0 = hn::ConcatLowerLower(d, o[3], o[1]), y1 = hn::ConcatUpperUpper(d, o[3], o[1]);
    hn::StoreU(hn::OddEvenBlocks(hn::SwapAdjacentBlocks(y0), x0), d, to + i * to_row);
    hn::StoreU(hn::OddEvenBlocks(y0, hn::SwapAdjacentBlocks(x0)), d, to + (4 + i) * to_row);
    hn::StoreU(hn::OddEvenBlocks(hn::SwapAdjacentBlocks(y1), x1), d, to + (8 + i) * to_row);
    hn::StoreU(hn::OddEvenBlocks(y1, hn::SwapAdjacentBlocks(x1)), d, to + (12 + i) * to_row);
  }
}
#else
#define FOVEA_TRANSPOSES_16 0
#endif

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
    hn::StoreU(Exp(hn::Add(v, v)), d, x + i);
  }
}

// How keys change on their way into panels: times a factor, or e^{2x} with a look at the size of x.
struct PanelChange {
  float factor = 1.0f;
  Magnitude* exponential = nullptr;
};

// `width` features of up to 16 keys, transposed, and 0 up to the next whole vector.
HWY_INLINE void PackBlock(Rows from, int64_t n, int64_t width, const PanelChange& change,
                          float* to) {
  const int64_t padded = RoundUp(n, kLanes);
  const float factor = change.factor;
  int64_t j = 0;
#if FOVEA_TRANSPOSES_16
  if (from.c == 1 && width == 16 && n == 16) {
    Transpose16x16(from.data, from.row, hn::Set(F(), factor), to, kPanel);
    j = 16;
  }
#endif
  if (n < padded) {  // the last vector of every row, before the keys go into it
    for (int64_t d = 0; d < width; ++d) {
      hn::StoreU(hn::Zero(F()), F(), to + d * kPanel + padded - kLanes);
    }
  }
  const int64_t whole = from.c == 1 ? RoundDown(width, 4) : 0;
  for (; j + 4 <= n; j += 4) {
    const float* row = from.data + j * from.row;
    for (int64_t d = 0; d < whole; d += 4) {
      Transpose4x4(row + d, from.row, factor, to + d * kPanel + j, kPanel);
    }
    for (int64_t d = whole; d < width; ++d) {
      for (int64_t i = 0; i < 4; ++i) {
        to[d * kPanel + j + i] = row[i * from.row + d * from.c] * factor;
      }
    }
  }
  for (; j < n; ++j) {
    for (int64_t d = 0; d < width; ++d) {
      to[d * kPanel + j] = from.data[j * from.row + d * from.c] * factor;
    }
  }
  for (int64_t d = 0; d < width && change.exponential; ++d) {
    for (int64_t i = 0; i < padded; i += kLanes) {
      change.exponential->See(hn::LoadU(F(), to + d * kPanel + i));
    }
    ExpTwice(to + d * kPanel, padded);
  }
}

// 16 keys at a time, each from its first feature to its last: as many streams as a core follows.
HWY_NOINLINE void PackPanels(Rows from, int64_t n, int64_t width, const PanelChange& change,
                             float* to) {
  const int64_t rows = PanelRows(width);
  for (int64_t j = 0; j < n; j += kPanel, to += rows * kPanel) {
    const int64_t m = std::min(kPanel, n - j);
    for (int64_t i = 0; i < m; i += 16) {
      const float* keys = from.data + (j + i) * from.row;
      for (int64_t d = 0; d < width; d += 16) {
        PackBlock({keys + d * from.c, from.row, from.c}, std::min<int64_t>(16, m - i),
                  std::min<int64_t>(16, width - d), change, to + d * kPanel + i);
      }
    }
    for (int64_t d = width; d < rows; ++d) FillRow(to + d * kPanel, 0, RoundUp(m, kLanes), 0.0f);
  }
}

// to[i][d] = factor·from[i][d], rows padded with 0 to `ld`.
HWY_NOINLINE void PackRows(Rows from, int64_t n, int64_t width, float factor, DenseRows out) {
  const F d;
  for (int64_t i = 0; i < n; ++i) {
    const float* row = from.data + i * from.row;
    float* to = out.data + i * out.ld;
    int64_t k = 0;
    if (from.c == 1) {
      for (; k + kLanes <= width; k += kLanes) {
        hn::StoreU(hn::Mul(hn::LoadU(d, row + k), hn::Set(d, factor)), d, to + k);
      }
    }
    for (; k < width; ++k) to[k] = row[k * from.c] * factor;
    FillRow(to, width, out.ld, 0.0f);
  }
}

// Rows that tiles can read as they are need no copy.
inline bool ReadableInPlace(Rows from, int64_t width) { return from.c == 1 && width % kLanes == 0; }

// 0·x is 0 for every finite x, NaN otherwise.
HWY_NOINLINE bool AllFinite(Rows from, int64_t n, int64_t width) {
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
