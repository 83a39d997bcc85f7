#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv-direct.cc"
#include <hwy/foreach_target.h>
#include "kernels/scalar_size.h"
// Highway's headers follow the line above.
#include <hwy/highway.h>

#include <algorithm>
#include <vector>

#include "core/allocator.h"
#include "core/threads.h"
#include "kernels/conv-direct.h"
#include "kernels/gemm-tile-inl.h"
#include "kernels/parts-inl.h"
#include "kernels/planes-inl.h"
#include "kernels/rounding.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels {
namespace HWY_NAMESPACE {
namespace {

// Sides of a tile whose steps, or rows, lie at any distances.
struct LeftSteps {
  const float* data;
  int64_t row;
  const int64_t* at;
  const float* step(int64_t k) const { return data + at[k]; }
  int64_t down(int64_t i) const { return i * row; }
  void advance() { data += kTileRows * row; }
};
struct LeftPlaces {
  const float* data;
  const int64_t* at;
  int64_t col;
  const float* step(int64_t k) const { return data + k * col; }
  int64_t down(int64_t i) const { return at[i]; }
  void advance() { at += kTileRows; }
};
struct RightSteps {
  const float* data;
  const int64_t* at;
  const float* step(int64_t k) const { return data + at[k]; }
};

// ---- Places -------------------------------------------------------------------------------------

// Where x itself is read as it lies, rows are as long as one likes.
Window InRows(Window w) {
  if (!is_plain(w)) return w;
  constexpr int64_t kLongest = 256;
  const int64_t places = w.OY * w.OX;
  w.OX = w.X = DivCeil(places, DivCeil(places, kLongest));
  w.OY = w.Y = DivCeil(places, w.X);
  return w;
}

// How a convolution is read: strips of whole rows of places, of which each meets numbers of x that
// lie `steps` further for each weight.
class Rows {
 public:
  // `most` numbers at a time; x is copied if its margins are to be there, or `always`.
  Rows(const Convolution& c, bool always, int64_t most)
      : c_(c),
        w_(always ? c.window : InRows(c.window)),
        copied_(always || w_.pad_y + w_.pad_x > 0),
        row_(copied_ ? w_.X + 2 * w_.pad_x : w_.X) {
    constexpr int64_t kEnough = 8;
    const int64_t numbers = w_.OX * RoundUp(c.O, kLanes) + w_.C * row_ * w_.stride_y;
    const int64_t tallest = std::clamp<int64_t>(most / numbers, 1, w_.OY);
    const int64_t images = c.N * c.G;
    strips_ = std::max(DivCeil(w_.OY, tallest), std::min(w_.OY, DivCeil(kEnough, images)));
    height_ = DivCeil(w_.OY, strips_);
    strips_ = DivCeil(w_.OY, height_);
    plane_ = copied_ ? lines(height_) * row_ : c.window.Y * c.window.X;
    for (int64_t i = 0; i < w_.C; ++i) {
      for (int64_t y = 0; y < w_.KY; ++y) {
        for (int64_t x = 0; x < w_.KX; ++x) {
          steps.push_back(i * plane_ + y * w_.dilation_y * row_ + x * w_.dilation_x);
        }
      }
    }
  }
  int64_t strips() const { return strips_; }
  RowSpan strip(int64_t i) const { return {i * height_, std::min(w_.OY, (i + 1) * height_)}; }
  // Of a strip's copy; rows may be read one panel too far.
  int64_t scratch() const { return copied_ ? w_.C * plane_ + kPanel : 0; }
  // Places of a strip, at most.
  int64_t places() const { return height_ * w_.OX; }
  int64_t across(int64_t oy) const { return std::min(w_.OX, c_.P() - oy * w_.OX); }
  // From a row of places to the next in x.
  int64_t down() const { return w_.stride_y * row_; }
  const Window& window() const { return w_; }

  // Where the first place of a strip finds the numbers of its first weight.
  const float* read(const float* x, RowSpan rows, float* scratch) const {
    const int64_t first = rows.first * w_.stride_y - w_.pad_y;
    if (!copied_) return x + first * row_;
    const int64_t count = lines(rows.last - rows.first);
    for (int64_t c = 0; c < w_.C; ++c) {
      float* to = scratch + c * plane_;
      for (int64_t y = first; y < first + count; ++y, to += row_) {
        std::fill_n(to, row_, 0.0f);
        if (y < 0 || y >= w_.Y) continue;
        const float* from = x + (c * w_.Y + y) * w_.X;
        std::copy(from, from + w_.X, to + w_.pad_x);
      }
    }
    std::fill_n(scratch + w_.C * plane_, kPanel, 0.0f);
    return scratch;
  }

  std::vector<int64_t> steps;

 private:
  int64_t lines(int64_t rows) const {
    return (rows - 1) * w_.stride_y + (w_.KY - 1) * w_.dilation_y + 1;
  }

  Convolution c_;
  Window w_;
  bool copied_;
  int64_t row_, height_, strips_, plane_;
};

constexpr int64_t kMostNumbers = 48 * 1024;

// ---- y, lanes are outputs -----------------------------------------------------------------------

// w[g][output][k] as [g][panel of outputs][k][kPanel].
struct Panels {
  Panels(const Convolution& c, const float* w)
      : K(c.K()), step(RoundUp(c.O, kPanel) * K), numbers(c.G * step) {
    const int64_t panels = DivCeil(c.O, kPanel);
    parallel_for(c.G * panels, K * kPanel, [&](int64_t task) HWY_ATTR {
      const int64_t g = task / panels, o = task % panels * kPanel;
      float* to = numbers.data() + task * kPanel * K;
      if (c.O - o < kPanel) std::fill_n(to, kPanel * K, 0.0f);
      Transposed(w + (g * c.O + o) * K, K, {std::min(kPanel, c.O - o), K}, to, kPanel);
    });
  }
  const float* at(int64_t g, int64_t o) const { return numbers.data() + g * step + o * K; }
  int64_t K, step;
  Buffer<float> numbers;
};

}  // namespace

void Direct(const Convolution& c, const float* x, const float* w, float* y) {
  const Rows rows(c, false, kMostNumbers);
  const Panels panels(c, w);
  const int64_t width = RoundUp(c.O, kLanes), stride = c.window.stride_x, P = c.P();
  parallel_for(c.N * c.G * rows.strips(), [&](int64_t task) HWY_ATTR {
    const int64_t i = task / rows.strips();
    const RowSpan strip = rows.strip(task % rows.strips());
    const Buffer<float> scratch(rows.places() * width + rows.scratch());
    const float* from = rows.read(x + i * c.window.C * c.window.Y * c.window.X, strip,
                                  scratch.data() + rows.places() * width);
    float* to = scratch.data();
    for (int64_t oy = strip.first; oy < strip.last; ++oy, from += rows.down()) {
      const int64_t across = rows.across(oy);
      for (int64_t o = 0; o < width; o += kPanel) {
        Columns(LeftSteps{from, stride, rows.steps.data()},
                Right<float>{panels.at(i % c.G, o), kPanel}, {to + o, width, {}},
                {across, std::min(kPanel, width - o), c.K()}, Ahead{});
      }
      to += across * width;
    }
    Transposed(scratch.data(), width, {(to - scratch.data()) / width, c.O},
               y + i * c.O * P + strip.first * rows.window().OX, P);
  });
}

// ---- y, lanes are places ------------------------------------------------------------------------

void FewOutputs(const Convolution& c, const float* x, const float* w, float* y) {
  const Rows rows(c, true, kMostNumbers);
  const int64_t K = c.K(), P = c.P();
  parallel_for(c.N * c.G * rows.strips(), [&](int64_t task) HWY_ATTR {
    const int64_t i = task / rows.strips();
    const RowSpan strip = rows.strip(task % rows.strips());
    const Buffer<float> scratch(rows.scratch());
    const float* from =
        rows.read(x + i * c.window.C * c.window.Y * c.window.X, strip, scratch.data());
    for (int64_t oy = strip.first; oy < strip.last; ++oy, from += rows.down()) {
      const int64_t across = rows.across(oy);
      for (int64_t j = 0; j < across; j += kPanel) {
        Columns(LeftRows{{w + i % c.G * c.O * K, K, 1}, kTileRows * K},
                RightSteps{from + j, rows.steps.data()},
                {y + i * c.O * P + oy * rows.window().OX + j, P, {}},
                {c.O, std::min(kPanel, across - j), K}, Ahead{});
      }
    }
  });
}

// ---- dW -----------------------------------------------------------------------------------------

namespace {

// sum[k][output] += Σ x·dy of a strip; `places` has room for its dy, outputs next to each other.
void AddStrip(const Convolution& c, const Rows& rows, RowSpan strip, const float* from,
              const float* dy, float* places, float* sum) {
  const int64_t width = RoundUp(c.O, kLanes), first = strip.first * rows.window().OX;
  const int64_t count = std::min(strip.last * rows.window().OX, c.P()) - first;
  if (c.O < width) std::fill_n(places, count * width, 0.0f);
  Transposed(dy + first, c.P(), {c.O, count}, places, width);
  for (int64_t oy = strip.first; oy < strip.last; ++oy, from += rows.down()) {
    const int64_t across = rows.across(oy);
    for (int64_t o = 0; o < width; o += kPanel) {
      Columns(LeftPlaces{from, rows.steps.data(), c.window.stride_x},
              Right<float>{places + o, width}, {sum + o, width, {nullptr, sum + o, width}},
              {c.K(), std::min(kPanel, width - o), across}, Ahead{});
    }
    places += across * width;
  }
}

}  // namespace

void DirectOfWeights(const Convolution& c, const float* x, const float* dy, float* dw) {
  const Rows rows(c, false, kMostNumbers);
  const int64_t all = c.N * rows.strips(), width = RoundUp(c.O, kLanes);
  const int64_t parts = std::clamp<int64_t>(16 / c.G, 1, all);
  const PartialWeights partial(parts, c.G, c.K(), c.O);
  parallel_for(parts * c.G, [&](int64_t task) HWY_ATTR {
    const int64_t part = task / c.G, g = task % c.G;
    const Buffer<float> scratch(rows.places() * width + rows.scratch());
    float* sum = partial.at(part, g, 0);
    std::fill_n(sum, c.K() * width, 0.0f);
    for (int64_t s = all * part / parts; s < all * (part + 1) / parts; ++s) {
      const int64_t i = s / rows.strips() * c.G + g;
      const RowSpan strip = rows.strip(s % rows.strips());
      const float* from = rows.read(x + i * c.window.C * c.window.Y * c.window.X, strip,
                                    scratch.data() + rows.places() * width);
      AddStrip(c, rows, strip, from, dy + i * c.O * c.P(), scratch.data(), sum);
    }
  });
  AddParts(partial, dw);
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::kernels {

HWY_EXPORT(Direct);
HWY_EXPORT(FewOutputs);
HWY_EXPORT(DirectOfWeights);

namespace {
constexpr int64_t kFewOutputs = 8;
}

bool direct_can(const Convolution& c) { return c.O >= kFewOutputs; }
void direct(const Convolution& c, const float* x, const float* w, float* y) {
  HWY_DYNAMIC_DISPATCH(Direct)(c, x, w, y);
}
// Rows of whole panels; else where there are too few outputs for lanes, and sums enough in
// registers that none waits for itself.
bool few_outputs_can(const Convolution& c) {
  constexpr int64_t kRow = 64, kVector = 16, kSums = 8;
  const int64_t across = c.window.OX, vectors = std::min(kRow, across + kVector - 1) / kVector;
  return c.window.stride_x == 1 &&
         (across % kRow == 0 || (c.O < kFewOutputs && c.O * vectors >= kSums));
}
void few_outputs(const Convolution& c, const float* x, const float* w, float* y) {
  HWY_DYNAMIC_DISPATCH(FewOutputs)(c, x, w, y);
}
void direct_d_w(const Convolution& c, const float* x, const float* dy, float* dw) {
  HWY_DYNAMIC_DISPATCH(DirectOfWeights)(c, x, dy, dw);
}

}  // namespace fovea::kernels
#endif  // HWY_ONCE
