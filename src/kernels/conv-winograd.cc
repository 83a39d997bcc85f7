#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv-winograd.cc"
#include <hwy/foreach_target.h>
#include "kernels/scalar_size.h"
// Highway's headers follow the line above.
#include <hwy/highway.h>

#include <algorithm>
#include <bit>

#include "core/allocator.h"
#include "core/threads.h"
#include "kernels/conv-winograd.h"
#include "kernels/parts-inl.h"
#include "kernels/winograd-inl.h"
#include "kernels/winograd-product.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels {
namespace HWY_NAMESPACE {
namespace {

// The tiles of x that scheme S reads, and of y or dy beside them.
template <class S, class P>
TileRows TilesOfX(const P& p) {
  return {.planes = p.G * p.C,
          .Y = p.Y,
          .X = p.X,
          .pad = p.pad,
          .in = S::kIn,
          .step = S::kStep,
          .down = DivCeil(p.OY, S::kOut),
          .across = DivCeil(p.OX, S::kOut)};
}
template <class S, class P>
TileRows TilesOfY(const P& p) {
  return {.planes = p.G * p.O,
          .Y = p.OY,
          .X = p.OX,
          .pad = 0,
          .in = S::kOut,
          .step = S::kOut,
          .down = DivCeil(p.OY, S::kOut),
          .across = DivCeil(p.OX, S::kOut)};
}

// ---- y ------------------------------------------------------------------------------------------

// Rows of tiles that go through all steps together, so that their points stay in the second cache.
int64_t RowsOfBlock(const TileRows& t, int64_t images, int64_t numbers) {
  constexpr int64_t kNumbers = 128 * 1024, kEnough = 8;
  const int64_t all = images * t.down;
  const int64_t most = std::clamp<int64_t>(kNumbers / (numbers * t.across), 1, all);
  const int64_t blocks = std::max(DivCeil(all, most), std::min(kEnough, all));
  return DivCeil(all, blocks);
}

// u[point][panel of outputs][input][kPanel]
struct Filters {
  float* data;
  int64_t step, C;
  float* at(int64_t point, int64_t o, int64_t c) const {
    return data + point * step + o / kPanel * kPanel * C + c * kPanel + o % kPanel;
  }
  static int64_t step_of(int64_t O, int64_t C) { return RoundUp(O, kPanel) * C + Slots::kApart; }
};

template <class S>
void TransformFilters(const WinogradProduct& p, const float* w, int64_t o, Filters u) {
  const F d;
  const int64_t count = std::min(kLanes, p.O - o);
  HWY_ALIGN float taps[kTaps * kTaps][kLanes] = {};
  for (int64_t c = 0; c < p.C; ++c) {
    for (int64_t i = 0; i < count; ++i) {
      const float* from = w + (o + i) * p.w_out + c * p.w_in + (p.turned ? kTaps * kTaps - 1 : 0);
      for (int64_t k = 0; k < kTaps * kTaps; ++k) taps[k][i] = from[p.turned ? -k : k];
    }
    float* to = u.at(0, o, c);
    BothWays<kTaps, S::kPoints>(
        [](const Vec* from, Vec* points) HWY_ATTR { S::Weights(from, points); },
        [&](int y, int x) HWY_ATTR { return hn::Load(d, taps[y * kTaps + x]); },
        [&](int y, int x, Vec point)
            HWY_ATTR { hn::Store(point, d, to + (y * S::kPoints + x) * u.step); });
  }
}

template <class S>
class Product {
 public:
  static constexpr int kPoints = S::kPoints * S::kPoints;

  Product(const WinogradProduct& p, const float* w)
      : p_(p),
        in_(TilesOfX<S>(p)),
        out_(TilesOfY<S>(p)),
        width_(RoundUp(std::max(p.C, p.O), kLanes)),
        rows_(RowsOfBlock(in_, p.N, (kPoints + 1) * width_)),
        filters_(p.G * kPoints * Filters::step_of(p.O, p.C)) {
    const int64_t vectors = DivCeil(p.O, kLanes);
    parallel_for(p.G * vectors, p.C * kPoints * kLanes, [&](int64_t task) HWY_ATTR {
      const int64_t g = task / vectors;
      TransformFilters<S>(p_, w + g * p_.O * p_.C * kTaps * kTaps, task % vectors * kLanes,
                          filters(g));
    });
  }

  // A task takes some blocks that follow one another, since each fetches x for the next.
  // finite(image, whether all numbers of a row of tiles are)
  template <class Finite>
  void Run(const float* x, float* y, const Finite& finite) const {
    constexpr int64_t kTasks = 16, kBlocks = 4;  // at least, at most
    const int64_t all = p_.N * in_.down, blocks = DivCeil(all, rows_);
    const int64_t each = std::clamp<int64_t>(blocks / kTasks, 1, kBlocks) * rows_;
    const int64_t tasks = DivCeil(all, each);
    parallel_for(p_.G * tasks, [&](int64_t task) HWY_ATTR {
      const int64_t first = task % tasks * each, last = std::min(first + each, all);
      for (int64_t row = first; row < last; row += rows_) {
        Block(x, y, task / tasks, {row, std::min(row + rows_, last)}, finite);
      }
    });
  }

 private:
  Filters filters(int64_t g) const {
    const int64_t step = Filters::step_of(p_.O, p_.C);
    return {filters_.data() + g * kPoints * step, step, p_.C};
  }

  // The products of a point take the place of the point before.
  template <class Finite>
  void Block(const float* x, float* y, int64_t g, RowSpan rows, const Finite& finite) const {
    const int64_t tiles = (rows.last - rows.first) * in_.across;
    const int64_t step = tiles * width_ + Slots::kApart;
    const int64_t lines = std::max(S::kIn * in_.line(), S::kOut * (p_.OX + S::kOut));
    const Buffer<float> scratch((kPoints + 1) * step + lines * (width_ + kLanes));
    float* line = scratch.data() + (kPoints + 1) * step;
    const Channels c{g * p_.C, p_.C}, o{g * p_.O, p_.O};
    const Slots m{scratch.data(), step, o.width()}, v{scratch.data() + step, step, c.width()};
    ToPoints<S::kIn, S::kPoints>(in_, rows, c, x, line, v,
                                 [](const Vec* from, Vec* points)
                                     HWY_ATTR { S::Points(from, points); });
    const Filters u = filters(g);
    Fetch fetch(LinesOf(in_, c, x, Below(rows, p_.N * in_.down)), LinesOf(out_, o, y, rows));
    for (int64_t point = 0; point < kPoints; ++point) {
      for (int64_t j = 0; j < o.width(); j += kPanel) {
        Columns(LeftRows{{v.at(point, 0), v.width, 1}, kTileRows * v.width},
                Right<float>{u.at(point, j, 0), kPanel}, {m.at(point, 0) + j, m.width, {}},
                {tiles, std::min(kPanel, o.width() - j), p_.C}, fetch.take(tiles, p_.C));
      }
    }
    FromPoints<S::kPoints, S::kOut>(
        out_, rows, o, m, line, y,
        [](const Vec* from, Vec* places) HWY_ATTR { S::Places(from, places); }, finite);
  }

  WinogradProduct p_;
  TileRows in_, out_;
  int64_t width_, rows_;
  Buffer<float> filters_;
};

// ---- dW -----------------------------------------------------------------------------------------

// Sums of a part of the tiles for some inputs and outputs: points [point][input][output], which
// become taps [input][tap][output].
template <class S>
class WeightSums {
 public:
  static constexpr int kPoints = S::kPoints * S::kPoints;

  WeightSums(const WinogradWeights& p, const float* x, const float* dy)
      : p_(p), x_(x), dy_(dy), in_(TilesOfX<S>(p)), out_(TilesOfY<S>(p)) {}

  // Rows of tiles, all images.
  int64_t rows() const { return p_.N * in_.down; }

  // to[input][tap][output], rows of outputs to_row apart. c and o count within group g.
  void Run(int64_t g, RowSpan rows, Channels c, Channels o, float* to, int64_t to_row) const {
    const int64_t most = RowsOfBlock(in_, p_.N, kPoints * (c.width() + o.width()));
    const int64_t tiles = most * in_.across;
    const int64_t lines =
        std::max(S::kIn * in_.line() * c.pitch(), S::kOut * out_.line() * o.pitch());
    const Slots v = SlotsOf(tiles, c.width()), d = SlotsOf(tiles, o.width());
    const Slots sum = SlotsOf(c.count, o.width());
    const Buffer<float> scratch(kPoints * (v.step + d.step + sum.step) + lines);
    Step s{v, d, sum, nullptr};
    s.v.data = scratch.data();
    s.d.data = s.v.data + kPoints * v.step;
    s.sum.data = s.d.data + kPoints * d.step;
    s.line = s.sum.data + kPoints * sum.step;
    const Channels in{g * p_.C + c.first, c.count}, out{g * p_.O + o.first, o.count};
    for (int64_t row = rows.first; row < rows.last; row += most) {
      Add({row, std::min(row + most, rows.last)}, in, out, s, row == rows.first);
    }
    const F lanes;
    for (int64_t i = 0; i < c.count; ++i) {
      for (int64_t j = 0; j < o.width(); j += kLanes) {
        BothWays<S::kPoints, kTaps>(
            [](const Vec* points, Vec* taps) HWY_ATTR { S::Taps(points, taps); },
            [&](int y, int x)
                HWY_ATTR { return hn::Load(lanes, s.sum.at(y * S::kPoints + x, i) + j); },
            [&](int y, int x, Vec tap) HWY_ATTR {
              hn::Store(tap, lanes, to + (i * kTaps * kTaps + y * kTaps + x) * to_row + j);
            });
      }
    }
  }

 private:
  struct Step {
    Slots v, d, sum;
    float* line;
  };
  static Slots SlotsOf(int64_t tiles, int64_t width) {
    return {nullptr, tiles * width + Slots::kApart, width};
  }

  // sum[point] += v[point]ᵀ·d[point]
  void Add(RowSpan rows, Channels c, Channels o, const Step& s, bool first) const {
    ToPoints<S::kIn, S::kPoints>(in_, rows, c, x_, s.line, s.v,
                                 [](const Vec* from, Vec* points)
                                     HWY_ATTR { S::Points(from, points); });
    ToPoints<S::kOut, S::kPoints>(out_, rows, o, dy_, s.line, s.d,
                                  [](const Vec* from, Vec* points)
                                      HWY_ATTR { S::PointsOfPlaces(from, points); });
    const int64_t tiles = (rows.last - rows.first) * in_.across;
    const RowSpan below = Below(rows, p_.N * in_.down);
    Fetch fetch(LinesOf(in_, c, x_, below), LinesOf(out_, o, dy_, below));
    for (int64_t point = 0; point < kPoints; ++point) {
      for (int64_t j = 0; j < o.width(); j += kPanel) {
        float* sum = s.sum.at(point, 0) + j;
        Columns(LeftRows{{s.v.at(point, 0), 1, s.v.width}, kTileRows},
                Right<float>{s.d.at(point, 0) + j, s.d.width},
                {sum, s.sum.width, {nullptr, first ? nullptr : sum, s.sum.width}},
                {c.count, std::min(kPanel, o.width() - j), tiles}, fetch.take(c.count, tiles));
      }
    }
  }

  WinogradWeights p_;
  const float *x_, *dy_;
  TileRows in_, out_;
};

// Parts of the tiles whose sums are added at the end: as many as have enough of them, by sizes
// alone.
int64_t PartsOf(int64_t tiles, int64_t rows, int64_t blocks) {
  constexpr int64_t kTiles = 48, kMost = 16;
  const int64_t most = std::min({kMost / blocks, tiles / kTiles, rows});
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(1, most))));
}

template <class S>
bool SumWeights(const WinogradWeights& p, const float* x, const float* dy, float* dw) {
  constexpr int64_t kWide = 64;  // channels of x, and of dy, in one task
  const WeightSums<S> sums(p, x, dy);
  const int64_t C = DivCeil(p.C, kWide), O = DivCeil(p.O, kWide), blocks = p.G * C * O;
  const int64_t parts = PartsOf(sums.rows() * DivCeil(p.OX, S::kOut), sums.rows(), blocks);
  const PartialWeights partial(parts, p.G, p.C * kTaps * kTaps, p.O);
  parallel_for(parts * blocks, [&](int64_t task) HWY_ATTR {
    const int64_t part = task / blocks, g = task % blocks / (C * O);
    const int64_t c = task % (C * O) / O * kWide, o = task % O * kWide;
    sums.Run(g, {sums.rows() * part / parts, sums.rows() * (part + 1) / parts},
             {c, std::min(kWide, p.C - c)}, {o, std::min(kWide, p.O - o)},
             partial.at(part, g, c * kTaps * kTaps) + o, partial.row);
  });
  return AddParts(partial, dw);
}

}  // namespace

void WinogradForward(const WinogradProduct& p, const float* x, const float* w, float* y,
                     NotFinite& faults) {
  const auto finite = [&](int64_t image, bool all) {
    if (!all) faults.add(image);
  };
  switch (p.scheme) {
    case WinogradProduct::four_places:
      return Product<FourPlaces>(p, w).Run(x, y, finite);
    case WinogradProduct::two_apart:
      return Product<TwoApart>(p, w).Run(x, y, finite);
    case WinogradProduct::spread:
      return Product<Spread>(p, w).Run(x, y, finite);
  }
}

// Whether all of dw is finite.
bool WinogradOfWeights(const WinogradWeights& p, const float* x, const float* dy, float* dw) {
  return p.by_one ? SumWeights<FourPlaces>(p, x, dy, dw) : SumWeights<TwoApart>(p, x, dy, dw);
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/conv-unfold.h"

namespace fovea::kernels {

HWY_EXPORT(WinogradForward);
HWY_EXPORT(WinogradOfWeights);

namespace {
bool is_window(const Window& w, int64_t stride, int64_t most_pad) {
  return w.KY == 3 && w.KX == 3 && w.stride_y == stride && w.stride_x == stride &&
         w.dilation_y == 1 && w.dilation_x == 1 && w.pad_y == w.pad_x && w.pad_y <= most_pad;
}
bool one_by_one(const Convolution& c) { return c.window.stride_y == 1; }

// y, of images that are not finite once more by the plain way.
template <class Again>
void checked(const WinogradProduct& p, const float* x, const float* w, float* y,
             const Again& again) {
  NotFinite faults(p.N);
  HWY_DYNAMIC_DISPATCH(WinogradForward)(p, x, w, y, faults);
  for (int64_t i = 0; i < p.N; ++i) {
    if (faults.has(i)) again(x + i * p.G * p.C * p.Y * p.X, y + i * p.G * p.O * p.OY * p.OX);
  }
}
}  // namespace

bool winograd_can(const Convolution& c) {
  return c.window.C >= 16 && c.O >= 16 &&
         (is_window(c.window, 1, 2) || (is_window(c.window, 2, 1) && c.window.pad_y == 1));
}

void winograd(const Convolution& c, const float* x, const float* w, float* y) {
  const Window& n = c.window;
  Convolution one = c;
  one.N = 1;
  checked({one_by_one(c) ? WinogradProduct::four_places : WinogradProduct::two_apart, c.N, c.G, n.C,
           n.Y, n.X, c.O, n.OY, n.OX, n.pad_y, n.C * 9, 9, false},
          x, w, y, [&](const float* xi, float* yi) { unfolded(one, xi, w, yi); });
}

void winograd_d_x(const Convolution& c, const float* w, const float* dy, float* dx) {
  const Window& n = c.window;
  Convolution one = c;
  one.N = 1;
  checked({one_by_one(c) ? WinogradProduct::four_places : WinogradProduct::spread, c.N, c.G, c.O,
           n.OY, n.OX, n.C, n.Y, n.X, one_by_one(c) ? 2 - n.pad_y : 0, 9, n.C * 9, one_by_one(c)},
          dy, w, dx, [&](const float* dyi, float* dxi) { unfolded_d_x(one, w, dyi, dxi); });
}

void winograd_d_w(const Convolution& c, const float* x, const float* dy, float* dw) {
  const Window& n = c.window;
  const WinogradWeights p{one_by_one(c), c.N, c.G, n.C, n.Y, n.X, c.O, n.OY, n.OX, n.pad_y};
  if (!HWY_DYNAMIC_DISPATCH(WinogradOfWeights)(p, x, dy, dw)) unfolded_d_w(c, x, dy, dw);
}

}  // namespace fovea::kernels
#endif  // HWY_ONCE
