// Many rows against weights of bf16. A's rows become bf16 as well, so that one instruction adds two
// products to each lane:
//   C[i][j] = Σ_k bf16(a[i][k])·w[k][j],
// off by 2⁻⁸·Σ_k|a[i][k]·w[k][j]| at most. Sums are float32.
#if defined(FOVEA_GEMM_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_GEMM_PAIRS_INL_H_
#undef FOVEA_GEMM_PAIRS_INL_H_
#else
#define FOVEA_GEMM_PAIRS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "core/allocator.h"
#include "core/isa.h"
#include "core/threads.h"
#include "kernels/gemm-words-inl.h"
#include "kernels/gemm.h"
#include "kernels/narrow-inl.h"
#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

bool HasPairs() { return HasBf16Dots(); }

#if FOVEA_DOTS
namespace {

// A in bf16, [rows,depth/2]; rows are filled up with zeros to whole tiles.
template <bool kByUnit>
struct LeftPairs {
  Buffer<uint16_t> halves;
  int64_t depth;

  static constexpr bool kUnit = kByUnit;
  static constexpr int64_t kRows = kLeftRows<kByUnit>;
  static constexpr int64_t kSize = 2;
  static constexpr uint8_t kFlip = 0;
  void Tile(int64_t row, const uint8_t* panel, float* to) const;
};

template <class To>
To InPairs(const Gemm& g) {
  const int64_t rows = RoundUp(g.m, To::kRows), depth = RoundUp(2 * g.k, kLine);
  const To to{Buffer<uint16_t>(rows * depth / 2), depth};
  parallel_for(rows, depth, [&](int64_t i) HWY_ATTR {
    uint16_t* row = to.halves.data() + i * depth / 2;
    const int64_t k = i < g.m ? g.k : 0;
    if (k > 0) ToBf16(g.a + i * g.a_row, k, row);
    std::fill(row + k, row + depth / 2, uint16_t{0});
  });
  return to;
}

template <bool kByUnit>
HWY_INLINE void LeftPairs<kByUnit>::Tile(int64_t row, const uint8_t* HWY_RESTRICT panel,
                                         float* HWY_RESTRICT to) const {
  const F d;
  const int64_t words = depth / 4;
  const auto* left = reinterpret_cast<const uint32_t*>(halves.data()) + row * words;
  if constexpr (kByUnit) {
    return unit::multiply<unit::Halves>(
        unit::Product<float>{.a = {left, words},
                             .b = {reinterpret_cast<const uint32_t*>(panel), kPanel},
                             .c = to,
                             .ldc = kPanel,
                             .m = kRows,
                             .n = kPanel,
                             .K = words,
                             .accumulate = false});
  }
  Vec sum[kTileRows][kPanelVecs];
  EachSum<kTileRows, kPanelVecs>([&](int i, int j) HWY_ATTR { sum[i][j] = hn::Zero(d); });
  AddProducts<ByHalfWords>({left, words, 1}, {reinterpret_cast<const uint32_t*>(panel), kPanel},
                           words, sum);
  EachSum<kTileRows, kPanelVecs>(
      [&](int i, int j) HWY_ATTR { hn::Store(sum[i][j], d, to + i * kPanel + j * kLanes); });
}

}  // namespace

// `g`, not a batch; B's columns lie in memory, and so do A's rows.
void Pairs(const Gemm& g) {
  if (uses_matrix_unit()) return ByWords(g, InPairs<LeftPairs<true>>(g));
  ByWords(g, InPairs<LeftPairs<false>>(g));
}
#else
void Pairs(const Gemm&) {}
#endif

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_GEMM_PAIRS_INL_H_
