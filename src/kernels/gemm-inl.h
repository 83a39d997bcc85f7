// A block of C = alpha·A·B + beta·C on the calling thread.
//
// A tile of C, kTileRows rows of a panel of kPanelVecs vectors, stays in registers while k runs:
// each step loads a row of B's panel and multiplies it by kTileRows numbers of A. Both are read
// where they lie if their rows do and the caches bear it, else packed: B into [k][panel], A into
// [k][kTileRows]. Few rows against columns that lie in memory are sums along k.
#if defined(FOVEA_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_GEMM_INL_H_
#undef FOVEA_GEMM_INL_H_
#else
#define FOVEA_GEMM_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/memory.h"
#include "kernels/gemm.h"
#include "kernels/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using F = hn::ScalableTag<float>;
using Vec = hn::Vec<F>;
constexpr int64_t kLanes = hn::MaxLanes(F());

// 6×4 accumulators, 4 of B and one of A where there are 32 registers, else 6×2, 2 and 1.
constexpr int kTileRows = 6;
constexpr int kPanelVecs = HWY_TARGET <= HWY_AVX3 ? 4 : 2;
constexpr int64_t kPanel = kPanelVecs * kLanes;
constexpr int64_t kDepth = 512;  // of k at a time: a panel then stays in the second cache
constexpr int64_t kFewRows = 20;
constexpr int64_t kAlias = 1024;  // rows so far apart share too few sets of the caches

HWY_INLINE float SumOf(Vec v) { return hn::GetLane(hn::SumOfLanes(F(), v)); }

#if HWY_TARGET != HWY_SCALAR
// Blocks of four lanes added up.
template <class D>
HWY_INLINE void StoreBlockSum(D d, hn::Vec<D> v, float* to) {
  if constexpr (hn::MaxLanes(D()) <= 4) {
    hn::Store(v, d, to);
  } else {
    const hn::Half<D> half;
    StoreBlockSum(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)), to);
  }
}
#endif

// to[j] = the sum of v[j]'s lanes: 4×4 transposed inside blocks while they are added.
HWY_INLINE void SumsOf(const Vec (&v)[4], float* to) {
#if HWY_TARGET == HWY_SCALAR
  for (int j = 0; j < 4; ++j) to[j] = SumOf(v[j]);
#else
  const F d;
  const hn::Repartition<uint64_t, F> d64;
  const auto pair = [&](Vec a, Vec b) HWY_ATTR {
    return hn::BitCast(d64, hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)));
  };
  const auto low = pair(v[0], v[1]), high = pair(v[2], v[3]);
  StoreBlockSum(d,
                hn::Add(hn::BitCast(d, hn::InterleaveLower(d64, low, high)),
                        hn::BitCast(d, hn::InterleaveUpper(d64, low, high))),
                to);
#endif
}

// The first n lanes of v to c, or added to what is there.
HWY_INLINE void Put(Vec v, float* HWY_RESTRICT c, int64_t n, bool add) {
  const F d;
  if (n >= kLanes) return hn::StoreU(add ? hn::Add(v, hn::LoadU(d, c)) : v, d, c);
  HWY_ALIGN float lanes[kLanes];
  hn::Store(v, d, lanes);
  for (int64_t i = 0; i < n; ++i) c[i] = add ? c[i] + lanes[i] : lanes[i];
}

// n < kLanes numbers, then zeros.
HWY_INLINE Vec LoadPart(const float* x, int64_t n) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2  // where masked lanes are not touched
  return hn::MaskedLoad(hn::FirstN(F(), static_cast<size_t>(n)), F(), x);
#else
  HWY_ALIGN float lanes[kLanes] = {};
  std::memcpy(lanes, x, static_cast<size_t>(n) * sizeof(float));
  return hn::Load(F(), lanes);
#endif
}

struct Strided {
  const float* data;
  int64_t row, col;
  const float* at(int64_t i, int64_t j) const { return data + i * row + j * col; }
  Strided from(int64_t i, int64_t j) const { return {at(i, j), row, col}; }
};

// The left side of a tile; `next` leads to the next kTileRows rows.
struct Left {
  const float* data;
  int64_t row, col, next;
};
// The right side: rows of whole vectors.
struct Right {
  const float* data;
  int64_t row;
};
struct Corner {
  float* data;
  int64_t row;
  bool add;  // to what is there
  Corner from(int64_t i, int64_t j) const { return {data + i * row + j, row, add}; }
};
struct Extent {
  int64_t m, n, depth;
};

// ---- Tiles: lanes along columns ----------------------------------------------------------------

// c[i][j] (+)= Σ_k a[i][k]·b[k][j] for MR rows and n ≤ NV vectors of columns.
template <int MR, int NV>
HWY_INLINE void Tile(Left a, Right b, Corner c, int64_t depth, int64_t n) {
  const F d;
  Vec sum[MR][NV];
  HWY_UNROLL(8)
  for (int i = 0; i < MR; ++i) {
    HWY_UNROLL(4)
    for (int j = 0; j < NV; ++j) sum[i][j] = hn::Zero(d);
  }
  const float* HWY_RESTRICT left = a.data;
  const float* HWY_RESTRICT panel = b.data;
  for (int64_t k = 0; k < depth; ++k, left += a.col, panel += b.row) {
    Vec right[NV];
    HWY_UNROLL(4)
    for (int j = 0; j < NV; ++j) right[j] = hn::LoadU(d, panel + j * kLanes);
    HWY_UNROLL(8)
    for (int i = 0; i < MR; ++i) {
      const Vec x = hn::Set(d, left[i * a.row]);
      HWY_UNROLL(4)
      for (int j = 0; j < NV; ++j) sum[i][j] = hn::MulAdd(x, right[j], sum[i][j]);
    }
  }
  HWY_UNROLL(8)
  for (int i = 0; i < MR; ++i) {
    HWY_UNROLL(4)
    for (int j = 0; j < NV; ++j) {
      Put(sum[i][j], c.data + i * c.row + j * kLanes, n - j * kLanes, c.add);
    }
  }
}

template <int NV>
HWY_NOINLINE void Column(Left a, Right b, Corner c, Extent e) {
  for (; e.m >= kTileRows; e.m -= kTileRows) {
    Tile<kTileRows, NV>(a, b, c, e.depth, e.n);
    a.data += a.next;
    c.data += kTileRows * c.row;
  }
  if (e.m == 5) Tile<5, NV>(a, b, c, e.depth, e.n);
  if (e.m == 4) Tile<4, NV>(a, b, c, e.depth, e.n);
  if (e.m == 3) Tile<3, NV>(a, b, c, e.depth, e.n);
  if (e.m == 2) Tile<2, NV>(a, b, c, e.depth, e.n);
  if (e.m == 1) Tile<1, NV>(a, b, c, e.depth, e.n);
}

// n ≤ kPanel columns.
HWY_INLINE void Columns(Left a, Right b, Corner c, Extent e) {
  const int64_t vecs = (e.n + kLanes - 1) / kLanes;
  if (vecs == kPanelVecs) return Column<kPanelVecs>(a, b, c, e);
  if constexpr (kPanelVecs > 2) {
    if (vecs == 3) return Column<3>(a, b, c, e);
    if (vecs == 2) return Column<2>(a, b, c, e);
  }
  Column<1>(a, b, c, e);
}

// ---- Packing -----------------------------------------------------------------------------------

// to[k][j] = factor·b[k][j], rows of kPanel, filled up with 0 to a whole vector.
void PackRows(Strided b, Extent e, float factor, float* HWY_RESTRICT to) {
  const F d;
  const Vec f = hn::Set(d, factor);
  const int64_t whole = e.n / kLanes * kLanes;
  for (int64_t k = 0; k < e.depth; ++k, to += kPanel) {
    const float* HWY_RESTRICT from = b.at(k, 0);
    for (int64_t j = 0; j < whole; j += kLanes) {
      hn::StoreU(hn::Mul(hn::LoadU(d, from + j), f), d, to + j);
    }
    if (whole == e.n) continue;
    hn::StoreU(hn::Zero(d), d, to + whole);
    for (int64_t j = whole; j < e.n; ++j) to[j] = from[j] * factor;
  }
}

// The same from columns that lie in memory, or from anything.
void PackColumns(Strided b, Extent e, float factor, float* HWY_RESTRICT to) {
  const int64_t square = b.row == 1 ? kSquare : e.depth + e.n;
  int64_t j = 0;
  for (; j + square <= e.n; j += square) {
    int64_t k = 0;
    for (; k + square <= e.depth; k += square) {
      TransposeSquare(b.at(k, j), b.col, factor, to + k * kPanel + j, kPanel);
    }
    for (; k < e.depth; ++k) {
      for (int64_t i = j; i < j + square; ++i) to[k * kPanel + i] = *b.at(k, i) * factor;
    }
  }
  for (; j < e.n; ++j) {
    for (int64_t k = 0; k < e.depth; ++k) to[k * kPanel + j] = *b.at(k, j) * factor;
  }
  for (; j % kLanes != 0; ++j) {
    for (int64_t k = 0; k < e.depth; ++k) to[k * kPanel + j] = 0.0f;
  }
}

// Rows of A in groups as tiles take them, [group][k][kTileRows]. Sixteen k at a time, so that what
// is read for one group is still there for the next.
Left PackLeft(Strided a, int64_t m, int64_t depth, float* HWY_RESTRICT to) {
  const Left packed{to, 1, kTileRows, kTileRows * depth};
  constexpr int64_t kStep = 16;
  for (int64_t first = 0; first < depth; first += kStep) {
    const int64_t last = std::min(depth, first + kStep);
    float* HWY_RESTRICT group = to;
    for (int64_t i = 0; i < m; i += kTileRows, group += packed.next) {
      const int64_t rows = std::min<int64_t>(kTileRows, m - i);
      for (int64_t k = first; k < last; ++k) {
        float* HWY_RESTRICT at = group + k * kTileRows;
        if (a.row == 1 && rows == kTileRows) {
          std::memcpy(at, a.at(i, k), kTileRows * sizeof(float));
        } else {
          for (int64_t r = 0; r < rows; ++r) at[r] = *a.at(i + r, k);
        }
      }
    }
  }
  return packed;
}

// ---- Few rows ----------------------------------------------------------------------------------

// c[i][j] (+)= factor·Σ_k a[i][k]·b[k][j] for MR rows of A and NR columns of B, both of which lie
// in memory: lanes along k.
template <int MR, int NR>
HWY_INLINE void Dots(Strided a, Strided b, Corner c, int64_t depth, float factor) {
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
    step(k, [&](const float* x) HWY_ATTR { return hn::LoadU(d, x); });
  }
  if (k < depth) {
    step(k, [&](const float* x) HWY_ATTR { return LoadPart(x, depth - k); });
  }
  for (int i = 0; i < MR; ++i) {
    HWY_ALIGN float total[4];
    if constexpr (NR == 4) {
      SumsOf(sum[i], total);
    } else {
      total[0] = SumOf(sum[i][0]);
    }
    for (int j = 0; j < NR; ++j) {
      float* to = c.data + i * c.row + j;
      *to = c.add ? *to + factor * total[j] : factor * total[j];
    }
  }
}

template <int NR>
HWY_INLINE void DotsDown(Strided a, Strided b, Corner c, Extent e, float factor) {
  int64_t i = 0;
  for (; i + 4 <= e.m; i += 4) Dots<4, NR>(a.from(i, 0), b, c.from(i, 0), e.depth, factor);
  a = a.from(i, 0);
  c = c.from(i, 0);
  if (e.m - i == 3) Dots<3, NR>(a, b, c, e.depth, factor);
  if (e.m - i == 2) Dots<2, NR>(a, b, c, e.depth, factor);
  if (e.m - i == 1) Dots<1, NR>(a, b, c, e.depth, factor);
}

HWY_NOINLINE void FewByDots(Strided a, Strided b, Corner c, Extent e, float factor) {
  int64_t j = 0;
  for (; j + 4 <= e.n; j += 4) DotsDown<4>(a, b.from(0, j), c.from(0, j), e, factor);
  for (; j < e.n; ++j) DotsDown<1>(a, b.from(0, j), c.from(0, j), e, factor);
}

// ---- A block -----------------------------------------------------------------------------------

HWY_NOINLINE void ByTiles(Strided a, Strided b, Corner c, Extent e, float factor) {
  const int64_t deepest = std::min(e.depth, kDepth);
  const bool pack_left = a.col != 1;
  const bool in_place =
      b.col == 1 && factor == 1.0f && (b.row % kAlias != 0 || e.m <= 2 * kTileRows);
  const int64_t groups = (e.m + kTileRows - 1) / kTileRows;
  const Buffer<float> scratch(deepest * (kPanel + (pack_left ? groups * kTileRows : 0)));
  float *panel = scratch.data(), *packed = panel + deepest * kPanel;
  for (int64_t k = 0; k < e.depth; k += kDepth, c.add = true) {
    Extent part{e.m, kPanel, std::min(kDepth, e.depth - k)};
    const Left left = pack_left ? PackLeft(a.from(0, k), e.m, part.depth, packed)
                                : Left{a.at(0, k), a.row, 1, kTileRows * a.row};
    for (int64_t j = 0; j < e.n; j += kPanel) {
      part.n = std::min(kPanel, e.n - j);
      Right right{b.at(k, j), b.row};
      if (!in_place || part.n < kPanel) {
        const auto pack = b.col == 1 ? PackRows : PackColumns;
        pack(b.from(k, j), part, factor, panel);
        right = {panel, kPanel};
      }
      Columns(left, right, c.from(0, j), part);
    }
  }
}

}  // namespace

// The block of C that `g` is; one of a batch.
void Block(const Gemm& g) {
  const Strided a{g.a, g.a_row, g.a_col}, b{g.b, g.b_row, g.b_col};
  if (g.beta != 0.0f && g.beta != 1.0f) {
    for (int64_t i = 0; i < g.m; ++i) {
      for (int64_t j = 0; j < g.n; ++j) g.c[i * g.c_row + j] *= g.beta;
    }
  }
  const Corner c{g.c, g.c_row, g.beta != 0.0f};
  const Extent e{g.m, g.n, g.k};
  if (g.m < kFewRows && b.row == 1 && a.col == 1) return FewByDots(a, b, c, e, g.alpha);
  ByTiles(a, b, c, e, g.alpha);
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_GEMM_INL_H_
