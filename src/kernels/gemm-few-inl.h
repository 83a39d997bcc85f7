// Few rows against columns of B that lie in memory: sums along k, lanes along k.
#if defined(FOVEA_GEMM_FEW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_GEMM_FEW_INL_H_
#undef FOVEA_GEMM_FEW_INL_H_
#else
#define FOVEA_GEMM_FEW_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/allocator.h"
#include "core/processor.h"
#include "kernels/gemm-tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace {

// N numbers of a row of C, factor·total and what is added.
template <int N>
HWY_INLINE void PutFew(const float* total, float factor, Corner c) {
  for (int j = 0; j < N; ++j) {
    float added = c.plus.matrix != nullptr ? c.plus.matrix[j] : 0.0f;
    if (c.plus.bias != nullptr) added += c.plus.bias[j];
    c.data[j] = factor * total[j] + added;
  }
}

// Sums over N columns of B as it is kept, with its scales.
template <int N, class T>
HWY_INLINE void ScaleFew(Strided<T> b, float* total) {
  if constexpr (std::is_same_v<T, int8_t>) {
    for (int j = 0; j < N; ++j) total[j] *= b.scale.at(0, j);
  }
}

// c[i][j] = factor·Σ_k a[i][k]·b[k][j] + plus[i][j] for MR rows of A and NR columns of B, both of
// which lie in memory: lanes along k.
template <int MR, int NR, class T>
HWY_INLINE void Dots(Strided<float> a, Strided<T> b, Corner c, int64_t depth, float factor) {
  const F d;
  Vec sum[MR][NR];
  HWY_UNROLL(4)
  for (int i = 0; i < MR; ++i) {
    HWY_UNROLL(4)
    for (int j = 0; j < NR; ++j) sum[i][j] = hn::Zero(d);
  }
  const auto step = [&](int64_t k, const auto& load) HWY_ATTR {
    Vec right[NR];
    HWY_UNROLL(4)
    for (int j = 0; j < NR; ++j) right[j] = load(b.data + j * b.col + k);
    HWY_UNROLL(4)
    for (int i = 0; i < MR; ++i) {
      const Vec x = load(a.data + i * a.row + k);
      HWY_UNROLL(4)
      for (int j = 0; j < NR; ++j) sum[i][j] = hn::MulAdd(x, right[j], sum[i][j]);
    }
  };
  int64_t k = 0;
  for (; k + kLanes <= depth; k += kLanes) {
    step(k, [&](const auto* x) HWY_ATTR { return Floats(d, x); });
  }
  if (k < depth) {
    step(k, [&](const auto* x) HWY_ATTR { return FirstFloats(d, x, depth - k); });
  }
  for (int i = 0; i < MR; ++i) {
    HWY_ALIGN float total[4];
    if constexpr (NR == 4) {
      SumsOf(sum[i], total);
    } else {
      total[0] = SumOf(sum[i][0]);
    }
    ScaleFew<NR>(b, total);
    PutFew<NR>(total, factor, c.from(i, 0));
  }
}

template <int NR, class T>
HWY_INLINE void DotsDown(Strided<float> a, Strided<T> b, Corner c, Extent e, float factor) {
  int64_t i = 0;
  for (; i + 4 <= e.m; i += 4) Dots<4, NR>(a.from(i, 0), b, c.from(i, 0), e.depth, factor);
  a = a.from(i, 0);
  c = c.from(i, 0);
  if (e.m - i == 3) Dots<3, NR>(a, b, c, e.depth, factor);
  if (e.m - i == 2) Dots<2, NR>(a, b, c, e.depth, factor);
  if (e.m - i == 1) Dots<1, NR>(a, b, c, e.depth, factor);
}

// ---- Up to four rows ---------------------------------------------------------------------------
// They wait for B, which is read once, column after column.

// to[i] = Σ_k a[i][k]·column[k], lanes still apart.
template <int MR, class T>
HWY_INLINE void SumDown(Strided<float> a, const T* HWY_RESTRICT column, int64_t depth,
                        int64_t fetch, float* HWY_RESTRICT to) {
  const F d;
  constexpr int kSums = MR == 1 ? 4 : 2;  // of a row, so that additions need not wait
  Vec sum[kSums][MR];
  HWY_UNROLL(4)
  for (int u = 0; u < kSums; ++u) {
    HWY_UNROLL(4)
    for (int i = 0; i < MR; ++i) sum[u][i] = hn::Zero(d);
  }
  const auto step = [&](int64_t k, int u, const auto& load) HWY_ATTR {
    if constexpr (std::is_same_v<T, float>) hwy::Prefetch(column + k + fetch);
    const Vec x = load(column + k);
    HWY_UNROLL(4)
    for (int i = 0; i < MR; ++i) {
      sum[u][i] = hn::MulAdd(x, load(a.data + i * a.row + k), sum[u][i]);
    }
  };
  const auto whole = [&](const auto* x) HWY_ATTR { return Floats(d, x); };
  int64_t k = 0;
  for (; k + kSums * kLanes <= depth; k += kSums * kLanes) {
    HWY_UNROLL(4)
    for (int u = 0; u < kSums; ++u) step(k + u * kLanes, u, whole);
  }
  for (; k + kLanes <= depth; k += kLanes) step(k, 0, whole);
  if (k < depth) step(k, 0, [&](const auto* x) HWY_ATTR { return FirstFloats(d, x, depth - k); });
  HWY_UNROLL(4)
  for (int i = 0; i < MR; ++i) {
    HWY_UNROLL(4)
    for (int u = 1; u < kSums; ++u) sum[0][i] = hn::Add(sum[0][i], sum[u][i]);
    hn::Store(sum[0][i], d, to + i * kLanes);
  }
}

// Weights of 8 or 16 bits are read as words of 32, which memory gives faster than parts of a vector
// that become floats one by one: kParts of them, of which each is the upper end of a float or of an
// integer. A's numbers lie so that those of a part are next to each other,
//   [k / (kParts·kLanes)][part][kLanes], zeros at the end.
using Words = hn::Vec<hn::Rebind<uint32_t, F>>;

template <class T>
constexpr int kParts = std::is_same_v<T, int8_t> ? 4
                       : std::is_same_v<T, Bf16> ? 2
                                                 : 1;
template <class T>
constexpr float kUnit = std::is_same_v<T, int8_t> ? 0x1p-24f : 1.0f;  // of what is made of a part

template <class T>
HWY_INLINE Words LoadWords(const T* x) {
  const hn::Rebind<uint32_t, F> d;
#if HWY_TARGET == HWY_SCALAR
  uint32_t word = 0;
  std::memcpy(&word, x, sizeof word);
  return hn::Set(d, word);
#else
  const hn::Repartition<uint8_t, F> bytes;
  return hn::BitCast(d, hn::LoadU(bytes, reinterpret_cast<const uint8_t*>(x)));
#endif
}
template <class T>
HWY_INLINE Words FirstWords(const T* x, int64_t n) {
  HWY_ALIGN T some[kParts<T> * kLanes] = {};
  std::memcpy(some, x, static_cast<size_t>(n) * sizeof(T));
  return LoadWords(some);
}

// Part p of the words, each kUnit⁻¹ times the number.
template <class T, int p>
HWY_INLINE Vec PartOf(Words w) {
  const hn::Rebind<uint32_t, F> d;
  constexpr int kBits = 32 / kParts<T>, kUp = 32 - kBits - p * kBits;
  if constexpr (kUp > 0) w = hn::ShiftLeft<kUp>(w);
  if constexpr (p > 0) w = hn::And(w, hn::Set(d, ~uint32_t{0} << (32 - kBits)));
  if constexpr (std::is_same_v<T, int8_t>) {
    return hn::ConvertTo(F(), hn::BitCast(hn::Rebind<int32_t, F>(), w));
  } else {
    return hn::BitCast(F(), w);
  }
}

// As above; nothing where numbers are not in parts.
template <class T>
Buffer<float> RowsApart(Strided<float> a, int64_t rows, int64_t depth) {
  if constexpr (kParts<T> == 1) return {};
  constexpr int64_t kBlock = kParts<T> * kLanes;
  const int64_t room = (depth + kBlock - 1) / kBlock * kBlock;
  Buffer<float> apart(rows * room);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t k = 0; k < room; k += kBlock) {
      HWY_ALIGN float some[kBlock] = {};
      const float* from = a.at(i, k);
      if (k + kBlock > depth) {
        std::copy(from, a.at(i, depth), some);
        from = some;
      }
      float* to = apart.data() + i * room + k;
      Vec part[4];
      if constexpr (kParts<T> == 4) {
        hn::LoadInterleaved4(F(), from, part[0], part[1], part[2], part[3]);
      } else {
        hn::LoadInterleaved2(F(), from, part[0], part[1]);
      }
      for (int p = 0; p < kParts<T>; ++p) hn::StoreU(part[p], F(), to + p * kLanes);
    }
  }
  return apart;
}

// SumDown() of rows that lie apart.
template <int MR, class T>
HWY_INLINE void SumApart(const float* HWY_RESTRICT x, const T* HWY_RESTRICT column, int64_t depth,
                         float* HWY_RESTRICT to) {
  const F d;
  constexpr int64_t kBlock = kParts<T> * kLanes;
  const int64_t row = (depth + kBlock - 1) / kBlock * kBlock;
  Vec sum[kParts<T>][MR];
  HWY_UNROLL(4)
  for (int p = 0; p < kParts<T>; ++p) {
    HWY_UNROLL(4)
    for (int i = 0; i < MR; ++i) sum[p][i] = hn::Zero(d);
  }
  const auto part = [&](int64_t k, auto p, Words w) HWY_ATTR {
    const Vec right = PartOf<T, p>(w);
    HWY_UNROLL(4)
    for (int i = 0; i < MR; ++i) {
      sum[p][i] = hn::MulAdd(right, hn::LoadU(d, x + i * row + k + p * kLanes), sum[p][i]);
    }
  };
  const auto block = [&](int64_t k, Words w) HWY_ATTR {
    part(k, std::integral_constant<int, 0>(), w);
    part(k, std::integral_constant<int, 1>(), w);
    if constexpr (kParts<T> == 4) {
      part(k, std::integral_constant<int, 2>(), w);
      part(k, std::integral_constant<int, 3>(), w);
    }
  };
  int64_t k = 0;
  for (; k + kBlock <= depth; k += kBlock) block(k, LoadWords(column + k));
  if (k < depth) block(k, FirstWords(column + k, depth - k));
  HWY_UNROLL(4)
  for (int i = 0; i < MR; ++i) {
    Vec total = sum[0][i];
    HWY_UNROLL(4)
    for (int p = 1; p < kParts<T>; ++p) total = hn::Add(total, sum[p][i]);
    hn::Store(hn::Mul(total, hn::Set(d, kUnit<T>)), d, to + i * kLanes);
  }
}

template <int MR, class T>
HWY_NOINLINE void Stream(Strided<float> a, Strided<T> b, Corner c, Extent e, float factor) {
  const F d;
  // Where columns follow one another, and not past the last.
  const int64_t ahead = fetched_ahead() / static_cast<int64_t>(sizeof(float));
  const int64_t fetched = b.col == e.depth ? e.n * e.depth - ahead : 0;
  HWY_ALIGN float sums[4][MR * kLanes] = {};
  const Buffer<float> apart = RowsApart<T>(a, MR, e.depth);
  for (int64_t j = 0; j < e.n; j += 4) {
    const int64_t cols = std::min<int64_t>(4, e.n - j);
    for (int64_t q = 0; q < cols; ++q) {
      if constexpr (kParts < T >> 1) {
        SumApart<MR>(apart.data(), b.at(0, j + q), e.depth, sums[q]);
      } else {
        SumDown<MR>(a, b.at(0, j + q), e.depth, (j + q) * e.depth < fetched ? ahead : 0, sums[q]);
      }
    }
    for (int i = 0; i < MR; ++i) {
      Vec row[4];
      for (int q = 0; q < 4; ++q) row[q] = hn::Load(d, sums[q] + i * kLanes);
      HWY_ALIGN float total[4];
      SumsOf(row, total);
      const Corner to = c.from(i, j);
      if (cols == 4) {
        ScaleFew<4>(b.from(0, j), total);
        PutFew<4>(total, factor, to);
      } else {
        for (int64_t q = 0; q < cols; ++q) {
          ScaleFew<1>(b.from(0, j + q), total + q);
          PutFew<1>(total + q, factor, to.from(0, q));
        }
      }
    }
  }
}

template <class T>
HWY_NOINLINE void Few(Strided<float> a, Strided<T> b, Corner c, Extent e, float factor) {
  if (e.m == 1) return Stream<1>(a, b, c, e, factor);
  if (e.m == 2) return Stream<2>(a, b, c, e, factor);
  if (e.m == 3) return Stream<3>(a, b, c, e, factor);
  if (e.m == 4) return Stream<4>(a, b, c, e, factor);
  int64_t j = 0;
  for (; j + 4 <= e.n; j += 4) DotsDown<4>(a, b.from(0, j), c.from(0, j), e, factor);
  for (; j < e.n; ++j) DotsDown<1>(a, b.from(0, j), c.from(0, j), e, factor);
}

}  // namespace
}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_GEMM_FEW_INL_H_
