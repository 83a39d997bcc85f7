// A tile of C, kTileRows rows of a panel of kPanelVecs vectors: what is fetched before it is
// needed, and what is added to the sums when they become C.
#if defined(FOVEA_GEMM_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_GEMM_TILE_INL_H_
#undef FOVEA_GEMM_TILE_INL_H_
#else
#define FOVEA_GEMM_TILE_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstdint>

#include "kernels/load-inl.h"
#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace {

// 6×4 accumulators, 4 of B and one of A where there are 32 registers, else 6×2, 2 and 1. k is
// hundreds here, and the more of a tile, the less is loaded for a product: of 4×4 and 8×3 there are
// 0.78 and 0.97 of the speed. Attention, whose k is 64, has its own shapes.
constexpr int kTileRows = 6;
constexpr int kPanelVecs = kManyRegisters ? 4 : 2;
constexpr int64_t kPanel = kPanelVecs * kLanes;

// What each number is multiplied by; null: 1.
struct Scale {
  const float* data = nullptr;
  int64_t row = 0, col = 0;
  float at(int64_t i, int64_t j) const { return data ? data[i * row + j * col] : 1.0f; }
  Scale from(int64_t i, int64_t j) const {
    return {data ? data + i * row + j * col : nullptr, row, col};
  }
};

template <class T>
struct Strided {
  const T* data;
  int64_t row, col;
  Scale scale = {};
  const T* at(int64_t i, int64_t j) const { return data + i * row + j * col; }
  Strided from(int64_t i, int64_t j) const { return {at(i, j), row, col, scale.from(i, j)}; }
  float number(int64_t i, int64_t j) const { return FloatOf(at(i, j)) * scale.at(i, j); }
};

// The left side of all tiles of a panel; `next` leads to the next kTileRows rows.
struct LeftRows : Left<float> {
  int64_t next;
  HWY_INLINE void advance() { data += next; }
};
// What the first `tiles` tiles fetch into the second cache: at step k of tile t the line of
// data[16·t + k·step].
struct Ahead {
  const float* data = nullptr;
  int64_t step = 0, tiles = 0;
  HWY_INLINE void operator()() {
    __builtin_prefetch(data, 0, 2);
    data += step;
  }
};
struct Corner;
// What is added to the sums where they are stored: a row for all, a matrix, or nothing (null).
struct Added {
  const float *bias, *matrix;
  int64_t row;
  static Added more(const Corner&);  // to what is there
  Added from(int64_t i, int64_t j) const {
    return {bias ? bias + j : nullptr, matrix ? matrix + i * row + j : nullptr, row};
  }
};
struct Corner {
  float* data;
  int64_t row;
  Added plus;
  Corner from(int64_t i, int64_t j) const { return {data + i * row + j, row, plus.from(i, j)}; }
};
HWY_INLINE Added Added::more(const Corner& c) { return {nullptr, c.data, c.row}; }
struct Extent {
  int64_t m, n, depth;
};

// c[i][j] = Σ_k a[i][k]·b[k][j] + plus[i][j] for MR rows and n ≤ NV vectors of columns.
template <int MR, int NV, class LeftSide, class RightSide>
HWY_INLINE void Tile(const LeftSide& a, const RightSide& b, const Corner& c, const Extent& e,
                     const Ahead& ahead) {
  const F d;
  Vec sum[MR][NV];
  EachSum<MR, NV>([&](int i, int j) HWY_ATTR { sum[i][j] = hn::Zero(d); });
  // C is there when the sums are.
  EachSum<MR, NV>([&](int i, int j) HWY_ATTR {
    hwy::Prefetch((c.plus.matrix ? c.plus.matrix + i * c.plus.row : c.data + i * c.row) +
                  j * kLanes);
  });
  if constexpr (MR == kTileRows) {
    AddProducts<ByFloats>(a, b, e.depth, sum, ahead);
  } else {
    AddProducts<ByFloats>(a, b, e.depth, sum);
  }
  // Only the last vector of a row may be a part of one.
  const int64_t tail = e.n - (NV - 1) * kLanes;
  const auto load = [&](const float* row, int j) HWY_ATTR {
    const float* from = row + j * kLanes;
    return j + 1 < NV || tail == kLanes ? hn::LoadU(d, from) : FirstFloats(d, from, tail);
  };
  const auto add = [&](const auto& added) HWY_ATTR {
    EachSum<MR, NV>([&](int i, int j) HWY_ATTR { sum[i][j] = hn::Add(sum[i][j], added(i, j)); });
  };
  const auto bias = [&](int, int j) HWY_ATTR { return load(c.plus.bias, j); };
  const auto matrix = [&](int i, int j)
                          HWY_ATTR { return load(c.plus.matrix + i * c.plus.row, j); };
  if (c.plus.bias != nullptr && c.plus.matrix != nullptr) {
    add([&](int i, int j) HWY_ATTR { return hn::Add(matrix(i, j), bias(i, j)); });
  } else if (c.plus.bias != nullptr) {
    add(bias);
  } else if (c.plus.matrix != nullptr) {
    add(matrix);
  }
  HWY_UNROLL(8)
  for (int i = 0; i < MR; ++i) {
    float* to = c.data + i * c.row;
    HWY_UNROLL(4)
    for (int j = 0; j < NV - 1; ++j) hn::StoreU(sum[i][j], d, to + j * kLanes);
    if (tail == kLanes) {
      hn::StoreU(sum[i][NV - 1], d, to + (NV - 1) * kLanes);
    } else {
      StorePart(sum[i][NV - 1], to + (NV - 1) * kLanes, tail);
    }
  }
}

template <int NV, class LeftSide, class RightSide>
HWY_NOINLINE void Column(LeftSide a, RightSide b, Corner c, Extent e, Ahead ahead) {
  for (; e.m >= kTileRows; e.m -= kTileRows) {
    if (ahead.tiles <= 0) ahead = {a.data};
    Tile<kTileRows, NV>(a, b, c, e, ahead);
    ahead.data += 16;
    --ahead.tiles;
    a.advance();
    c = c.from(kTileRows, 0);
  }
  if (e.m == 5) Tile<5, NV>(a, b, c, e, ahead);
  if (e.m == 4) Tile<4, NV>(a, b, c, e, ahead);
  if (e.m == 3) Tile<3, NV>(a, b, c, e, ahead);
  if (e.m == 2) Tile<2, NV>(a, b, c, e, ahead);
  if (e.m == 1) Tile<1, NV>(a, b, c, e, ahead);
}

// n ≤ kPanel columns.
template <class LeftSide, class RightSide>
HWY_INLINE void Columns(const LeftSide& a, const RightSide& b, const Corner& c, const Extent& e,
                        const Ahead& ahead) {
  const int64_t vecs = (e.n + kLanes - 1) / kLanes;
  if (vecs == kPanelVecs) return Column<kPanelVecs>(a, b, c, e, ahead);
  if constexpr (kPanelVecs > 2) {
    if (vecs == 3) return Column<3>(a, b, c, e, ahead);
    if (vecs == 2) return Column<2>(a, b, c, e, ahead);
  }
  Column<1>(a, b, c, e, ahead);
}

}  // namespace
}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_GEMM_TILE_INL_H_
