// Many rows against columns of narrow numbers that lie in memory. Both sides are taken in words of
// 32 bits, all of whose products one instruction adds to a lane: B in panels of words, packed by
// who needs it, A in whatever Left makes of its rows.
#if defined(FOVEA_GEMM_WORDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_GEMM_WORDS_INL_H_
#undef FOVEA_GEMM_WORDS_INL_H_
#else
#define FOVEA_GEMM_WORDS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "core/allocator.h"
#include "core/threads.h"
#include "kernels/dots-inl.h"
#include "kernels/gemm-inl.h"
#include "kernels/gemm-tile-inl.h"
#include "kernels/gemm.h"
#include "kernels/matrix-unit.h"
#include "kernels/transpose-inl.h"

#if FOVEA_DOTS
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace {

constexpr int64_t kLine = 64;  // bytes; what a row has is filled up to a multiple, with zeros
template <bool kByUnit>
constexpr int64_t kLeftRows = kByUnit ? 2 * unit::kSide : kTileRows;
constexpr int64_t kMostWordRows = 512, kFewestWordRows = 48;  // of C, to a task

// kPanel columns of B, each of so many bytes, as words [depth/4][kPanel]. Every byte is xored with
// `flip`; columns that are not there are zeros. `lines` has room for kSquare columns.
void PackWords(Strided<uint8_t> b, int64_t cols, int64_t bytes, int64_t depth, uint8_t flip,
               uint8_t* lines, uint8_t* to) {
  const hn::Repartition<uint8_t, F> d;
  for (int64_t j = 0; j < kPanel; j += kSquare) {
    for (int64_t i = 0; i < kSquare; ++i) {
      uint8_t* line = lines + i * depth;
      if (j + i >= cols) {
        std::fill(line, line + depth, uint8_t{0});
        continue;
      }
      const uint8_t* from = b.at(0, j + i);
      std::copy(from + bytes / kLine * kLine, from + bytes, line + bytes / kLine * kLine);
      std::fill(line + bytes, line + depth, uint8_t{0});
      for (int64_t at = 0; at < depth; at += kLine) {
        const bool whole = at + kLine <= bytes;
        const auto w = whole ? hn::LoadU(d, from + at) : hn::Load(d, line + at);
        hn::Store(hn::Xor(w, hn::Set(d, flip)), d, line + at);
      }
    }
    for (int64_t at = 0; at < depth; at += 4 * kSquare) {
      TransposeSquare(reinterpret_cast<const float*>(lines + at), depth / 4, Unscaled(),
                      reinterpret_cast<float*>(to + at * kPanel) + j, kPanel);
    }
  }
}

// c = sums·scale + what is added, n ≤ kPanel numbers.
HWY_INLINE void PutSums(const float* sums, const float* scale, Corner c, int64_t n) {
  const F d;
  for (int64_t j = 0; j < n; j += kLanes) {
    const int64_t some = std::min(kLanes, n - j);
    const auto load = [&](const float* x) HWY_ATTR {
      return some == kLanes ? hn::LoadU(d, x + j) : FirstFloats(d, x + j, some);
    };
    Vec y = hn::Mul(hn::Load(d, sums + j), hn::Load(d, scale + j));
    if (c.plus.bias != nullptr) y = hn::Add(y, load(c.plus.bias));
    if (c.plus.matrix != nullptr) y = hn::Add(y, load(c.plus.matrix));
    StoreUpTo(y, c.data + j, some);
  }
}

// Left has: `depth` bytes of a row of A; kSize bytes of a number of B, and kFlip for them; kRows,
// and Tile(row, panel, to), sums [kRows,kPanel] from `row` on without the scales of B's columns;
// kUnit, whether the matrix unit makes them.
template <class Left>
HWY_NOINLINE void WordsPanel(const Gemm& g, const Left& a, Interval rows, int64_t j,
                             uint8_t* scratch) {
  const int64_t cols = std::min(kPanel, g.n - j);
  uint8_t* panel = scratch + kSquare * a.depth;
  const Strided<uint8_t> b{static_cast<const uint8_t*>(g.b), Left::kSize, Left::kSize * g.b_col};
  PackWords(b.from(0, j), cols, Left::kSize * g.k, a.depth, Left::kFlip, scratch, panel);
  const Scale by = Scale{g.b_scale, g.scale_row, g.scale_col}.from(0, j);
  HWY_ALIGN float scale[kPanel] = {};
  for (int64_t i = 0; i < cols; ++i) scale[i] = g.alpha * by.at(0, i);
  const unit::Registers registers(Left::kUnit);
  HWY_ALIGN float sums[Left::kRows * kPanel];
  for (int64_t row = rows.first; row < rows.last; row += Left::kRows) {
    a.Tile(row, panel, sums);
    for (int64_t i = row; i < std::min(rows.last, row + Left::kRows); ++i) {
      PutSums(sums + (i - row) * kPanel, scale, CornerOf(g).from(i, j), cols);
    }
  }
}

template <class Left>
void ByWords(const Gemm& g, const Left& a) {
  const Crew crew;
  const int64_t panels = DivCeil(g.n, kPanel);
  const int64_t down = std::max(DivCeil(g.m, kMostWordRows),
                                std::min(DivCeil(2 * crew.size(), panels), g.m / kFewestWordRows));
  const int64_t rows = RoundUp(DivCeil(g.m, down), Left::kRows);
  const int64_t room = (kSquare + kPanel) * a.depth;
  const Buffer<uint8_t> scratch(crew.size() * room);
  crew.run(panels * DivCeil(g.m, rows), [&](int64_t t, int place) HWY_ATTR {
    const int64_t first = t / panels * rows;
    WordsPanel(g, a, {first, std::min(g.m, first + rows)}, t % panels * kPanel,
               scratch.data() + place * room);
  });
}

}  // namespace
}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_DOTS

#endif  // FOVEA_GEMM_WORDS_INL_H_
