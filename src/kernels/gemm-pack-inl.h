// Operands as tiles read them: B in panels, [k][kPanel]; A in groups of rows, [k][kGroup].
#if defined(FOVEA_GEMM_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_GEMM_PACK_INL_H_
#undef FOVEA_GEMM_PACK_INL_H_
#else
#define FOVEA_GEMM_PACK_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/gemm-tile-inl.h"
#include "kernels/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace {

constexpr int64_t kGroup = 8;   // kTileRows and two unread, so that whole vectors write them
constexpr int64_t kApart = 16;  // between groups, which would share sets of the first cache

// Whether rows lie in memory, each with one scale.
template <class T>
bool HasRows(Strided<T> b) {
  return b.col == 1 && b.scale.col == 0;
}

// to[k][j] = factor·b[k][j] from such rows.
template <class T>
void PanelOfRows(Strided<T> b, Extent e, float factor, float* HWY_RESTRICT to) {
  for (int64_t k = 0; k < e.depth; ++k, to += kPanel) {
    PackRow(b.at(k, 0), e.n, hn::Set(F(), factor * b.scale.at(k, 0)), to);
  }
}

// The same from columns that lie in memory, or from anything.
template <class T>
void PanelOfColumns(Strided<T> b, Extent e, float factor, float* HWY_RESTRICT to) {
  const bool columns = b.row == 1 && b.scale.row == 0;
  const int64_t square = columns ? kSquare : e.depth + e.n;
  int64_t j = 0;
  for (; j + square <= e.n; j += square) {
    int64_t k = 0;
    for (; k + square <= e.depth; k += square) {
      float* square_to = to + k * kPanel + j;
      if constexpr (std::is_same_v<T, int8_t>) {
        const auto by_column = [&](int64_t i) { return factor * b.scale.at(0, j + i); };
        TransposeSquare(b.at(k, j), b.col, by_column, square_to, kPanel);
      } else {
        TransposeSquare(b.at(k, j), b.col, factor, square_to, kPanel);
      }
    }
    for (; k < e.depth; ++k) {
      for (int64_t i = j; i < j + square; ++i) to[k * kPanel + i] = b.number(k, i) * factor;
    }
  }
  for (; j < e.n; ++j) {
    for (int64_t k = 0; k < e.depth; ++k) to[k * kPanel + j] = b.number(k, j) * factor;
  }
  for (; j % kLanes != 0; ++j) {
    for (int64_t k = 0; k < e.depth; ++k) to[k * kPanel + j] = 0.0f;
  }
}

int64_t PackedLeft(int64_t m, int64_t depth) {
  return (m + kTileRows - 1) / kTileRows * (kGroup * depth + kApart);
}

// Rows of A in groups as tiles take them. Sixteen k at a time, so that what is read for one group
// is still there for the next.
LeftRows PackLeft(Strided<float> a, int64_t m, int64_t depth, float* HWY_RESTRICT to) {
  const LeftRows packed{{to, 1, kGroup}, kGroup * depth + kApart};
  constexpr int64_t kStep = 16;
  const hn::CappedTag<float, kGroup> d;
  for (int64_t first = 0; first < depth; first += kStep) {
    const int64_t last = std::min(depth, first + kStep);
    float* HWY_RESTRICT group = to;
    for (int64_t i = 0; i < m; i += kTileRows, group += packed.next) {
      const int64_t rows = std::min<int64_t>(kTileRows, m - i);
      float* HWY_RESTRICT at = group + first * kGroup;
      if (a.row == 1 && i + kGroup <= m) {
        const float* HWY_RESTRICT from = a.at(i, first);
        for (int64_t k = first; k < last; ++k, at += kGroup, from += a.col) {
          for (int64_t r = 0; r < kTileRows; r += hn::MaxLanes(d)) {
            hn::StoreU(hn::LoadU(d, from + r), d, at + r);
          }
        }
        continue;
      }
      for (int64_t k = first; k < last; ++k, at += kGroup) {
        for (int64_t r = 0; r < rows; ++r) at[r] = *a.at(i + r, k);
      }
    }
  }
  return packed;
}

}  // namespace
}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_GEMM_PACK_INL_H_
