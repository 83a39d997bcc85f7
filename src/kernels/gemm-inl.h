// C = alpha·A·B + bias + plus by tiles. A and B are read where they lie if their rows do and the
// caches bear it, else packed. Of a large product B is packed once, for all rows and threads; a
// block of a small one packs its own.
#if defined(FOVEA_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_GEMM_INL_H_
#undef FOVEA_GEMM_INL_H_
#else
#define FOVEA_GEMM_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/allocator.h"
#include "core/threads.h"
#include "kernels/gemm-few-inl.h"
#include "kernels/gemm-pack-inl.h"
#include "kernels/gemm-tile-inl.h"
#include "kernels/gemm.h"
#include "kernels/rounding.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace {

constexpr int64_t kDepth = 512;   // of k at a time: a panel then stays in the second cache
constexpr int64_t kAlias = 1024;  // rows so far apart share too few sets of the caches

// ---- A block of a small product ----------------------------------------------------------------

// Only floats are read where they lie.
template <class T>
bool InPlace(Strided<T> b, int64_t m, float factor) {
  return std::is_same_v<T, float> && b.col == 1 && factor == 1.0f &&
         (b.row % kAlias != 0 || m <= 2 * kTileRows);
}

template <class T>
HWY_NOINLINE void ByTiles(Strided<float> a, Strided<T> b, Corner c, Extent e, float factor) {
  const int64_t deepest = std::min(e.depth, kDepth);
  const bool pack_left = a.col != 1;
  const bool in_place = InPlace(b, e.m, factor);
  const Buffer<float> scratch(deepest * kPanel + (pack_left ? PackedLeft(e.m, deepest) : 0));
  float *panel = scratch.data(), *packed = panel + deepest * kPanel;
  for (int64_t k = 0; k < e.depth; k += kDepth, c.plus = Added::more(c)) {
    Extent part{e.m, kPanel, std::min(kDepth, e.depth - k)};
    const LeftRows left = pack_left ? PackLeft(a.from(0, k), e.m, part.depth, packed)
                                    : LeftRows{{a.at(0, k), a.row, 1}, kTileRows * a.row};
    for (int64_t j = 0; j < e.n; j += kPanel) {
      part.n = std::min(kPanel, e.n - j);
      Right<float> right{panel, kPanel};
      if (!in_place || part.n < kPanel) {
        const auto pack = HasRows(b) ? PanelOfRows<T> : PanelOfColumns<T>;
        pack(b.from(k, j), part, factor, panel);
      } else if constexpr (std::is_same_v<T, float>) {
        right = {b.at(k, j), b.row};
      }
      Columns(left, right, c.from(0, j), part, Ahead{});
    }
  }
}

// ---- A large product ---------------------------------------------------------------------------

constexpr int64_t kSlab = int64_t{1} << 20;          // numbers of B packed at once: 4 MiB
constexpr int64_t kMostRows = 96, kFewestRows = 48;  // of C, to a task
constexpr int64_t kStrip = 32;                       // rows of B packed by a task

// A part of B in panels that all threads read: [k / kDepth][panel][k % kDepth][kPanel].
struct Slab {
  float* data;
  int64_t depth, cols;
  int64_t panels() const { return DivCeil(cols, kPanel); }
  int64_t cols_of(int64_t p) const { return std::min(kPanel, cols - p * kPanel); }
  int64_t depth_at(int64_t k) const { return std::min(kDepth, depth - k); }
  // k: a multiple of kDepth.
  float* panel(int64_t k, int64_t p) const {
    return data + (k * panels() + p * depth_at(k)) * kPanel;
  }
};

template <class T>
void PackStrip(Strided<T> b, Slab slab, int64_t first, float factor) {
  const int64_t chunk = first / kDepth * kDepth;
  for (int64_t k = first; k < std::min(slab.depth, first + kStrip); ++k) {
    const Vec f = hn::Set(F(), factor * b.scale.at(k, 0));
    for (int64_t p = 0; p < slab.panels(); ++p) {
      PackRow(b.at(k, p * kPanel), slab.cols_of(p), f, slab.panel(chunk, p) + (k - chunk) * kPanel);
    }
  }
}

template <class T>
void PackSlab(Strided<T> b, Slab slab, float factor) {
  if (HasRows(b)) {
    parallel_for(DivCeil(slab.depth, kStrip),
                 [&](int64_t t) HWY_ATTR { PackStrip(b, slab, t * kStrip, factor); });
    return;
  }
  const int64_t chunks = DivCeil(slab.depth, kDepth);
  parallel_for(chunks * slab.panels(), [&](int64_t t) HWY_ATTR {
    const int64_t k = t % chunks * kDepth, p = t / chunks;
    PanelOfColumns(b.from(k, p * kPanel), {0, slab.cols_of(p), slab.depth_at(k)}, factor,
                   slab.panel(k, p));
  });
}

struct Interval {
  int64_t first, last;
};

// m rows of C against some panels of the slab.
HWY_NOINLINE void RowsOfC(Strided<float> a, Slab slab, Corner c, int64_t m, Interval panels) {
  const bool pack_left = a.col != 1;
  const Buffer<float> packed(pack_left ? PackedLeft(m, std::min(slab.depth, kDepth)) : 0);
  for (int64_t k = 0; k < slab.depth; k += kDepth, c.plus = Added::more(c)) {
    const int64_t depth = slab.depth_at(k);
    const LeftRows left = pack_left ? PackLeft(a.from(0, k), m, depth, packed.data())
                                    : LeftRows{{a.at(0, k), a.row, 1}, kTileRows * a.row};
    for (int64_t p = panels.first; p < panels.last; ++p) {
      // The last panel fetches what is packed next; sooner, and the panels would drive it out.
      Ahead ahead;
      if (a.row == 1 && p + 1 == panels.last && k + kDepth < slab.depth) {
        ahead = {a.at(0, k + kDepth), a.col, DivCeil(m, 16)};
      }
      Columns(left, Right<float>{slab.panel(k, p), kPanel}, c.from(0, p * kPanel),
              {m, slab.cols_of(p), depth}, ahead);
    }
  }
}

// How the rows of C and the panels of a slab are dealt out: enough tasks for the crew, as even as
// tiles allow. What a number of C is does not depend on its task.
struct Shares {
  int64_t rows, panels;
};
Shares SharesOf(const Gemm& g, int64_t panels, int64_t crew) {
  const int64_t turns = DivCeil(g.m, crew * kMostRows);
  const int64_t down = std::min(crew * turns, std::max<int64_t>(1, g.m / kFewestRows));
  return {RoundUp(DivCeil(g.m, down), kTileRows), DivCeil(panels, DivCeil(crew, down))};
}

Corner CornerOf(const Gemm& g) { return {g.c, g.c_row, {g.bias, g.plus, g.plus_row}}; }
Strided<float> LeftOf(const Gemm& g) { return {g.a, g.a_row, g.a_col}; }
template <class T>
Strided<T> RightOf(const Gemm& g, const T* b) {
  return {b, g.b_row, g.b_col, {g.b_scale, g.scale_row, g.scale_col}};
}

template <class T>
void ByPanels(const Gemm& g, Strided<T> b) {
  const Strided<float> a = LeftOf(g);
  const int64_t cols = RoundUp(DivCeil(g.n, DivCeil(g.n, kSlab / kDepth)), kPanel);
  const int64_t depth = std::min(g.k, std::max(kDepth, kSlab / cols / kDepth * kDepth));
  const Buffer<float> scratch(depth * cols);
  const Crew crew;
  const Shares share = SharesOf(g, cols / kPanel, crew.size());
  const int64_t down = DivCeil(g.m, share.rows);
  for (int64_t j = 0; j < g.n; j += cols) {
    for (int64_t k = 0; k < g.k; k += depth) {
      const Slab slab{scratch.data(), std::min(depth, g.k - k), std::min(cols, g.n - j)};
      PackSlab(b.from(k, j), slab, g.alpha);
      crew.run(down * DivCeil(slab.panels(), share.panels), [&](int64_t t, int) HWY_ATTR {
        const int64_t i = t % down * share.rows, p = t / down * share.panels;
        Corner c = CornerOf(g).from(i, j);
        if (k > 0) c.plus = Added::more(c);
        RowsOfC(a.from(i, k), slab, c, std::min(share.rows, g.m - i),
                {p, std::min(slab.panels(), p + share.panels)});
      });
    }
  }
}

}  // namespace

// `g`, not a batch, with many rows.
void Large(const Gemm& g) {
  as_type(g.b_type, g.b, [&](const auto* b) HWY_ATTR { ByPanels(g, RightOf(g, b)); });
}

// The block of C that `g` is, one of a batch: of few rows, or of any.
void FewRows(const Gemm& g) {
  as_type(g.b_type, g.b, [&](const auto* b) HWY_ATTR {
    Few(LeftOf(g), RightOf(g, b), CornerOf(g), {g.m, g.n, g.k}, g.alpha);
  });
}
void Block(const Gemm& g) {
  if (few_rows(g)) return FewRows(g);  // the last of a larger product
  as_type(g.b_type, g.b, [&](const auto* b) HWY_ATTR {
    ByTiles(LeftOf(g), RightOf(g, b), CornerOf(g), {g.m, g.n, g.k}, g.alpha);
  });
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_GEMM_INL_H_
