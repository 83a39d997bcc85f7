// Tiles of an image as points, and back: rows of tiles are laid out with channels next to each
// other, so that lanes are channels whatever the image's size.
#if defined(FOVEA_WINOGRAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_WINOGRAD_INL_H_
#undef FOVEA_WINOGRAD_INL_H_
#else
#define FOVEA_WINOGRAD_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels/planes-inl.h"
#include "kernels/rounding.h"
#include "kernels/winograd-schemes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace {

// Planes of images as `down` rows of `across` tiles of in×in numbers, `step` apart.
struct TileRows {
  int64_t planes, Y, X;  // of an image
  int64_t pad, in, step, down, across;
  int64_t line() const { return (across - 1) * step + in; }  // places
  int64_t image() const { return planes * Y * X; }
};

// Neighbouring channels.
struct Channels {
  int64_t first, count;
  int64_t width() const { return RoundUp(count, kLanes); }
  // From a place of a line to the next: an odd number of vectors, so that they use all sets of the
  // first cache.
  int64_t pitch() const { return (DivCeil(count, kLanes) | 1) * kLanes; }
};
// For each point the channels of each tile. What lies between points keeps them off each other's
// sets of the cache.
struct Slots {
  static constexpr int64_t kApart = 48;
  float* data;
  int64_t step, width;
  float* at(int64_t point, int64_t tile) const { return data + point * step + tile * width; }
};

// Lines of an image as tiles read them, from the top of the first one on: line i at i % t.in,
// [place][channel]; 0 outside and beyond the last channel. x is that of the first channel.
void Lay(const TileRows& t, const float* x, Channels c, RowSpan lines, float* to) {
  const int64_t pitch = c.pitch(), size = t.line() * pitch;
  const int64_t inside = std::min(t.X, t.line() - t.pad), after = t.line() - t.pad - inside;
  for (int64_t i = lines.first; i < lines.last; ++i) {
    float* line = to + i % t.in * size;
    if (i < t.pad || i >= t.Y + t.pad || c.count < c.width()) {
      std::fill_n(line, size, 0.0f);
    } else {
      std::fill_n(line, t.pad * pitch, 0.0f);
      std::fill_n(line + size - after * pitch, after * pitch, 0.0f);
    }
  }
  BySquares(c.count, [&](int64_t channel, int64_t channels) HWY_ATTR {
    const float* plane = x + channel * t.Y * t.X;
    for (int64_t i = std::max(lines.first, t.pad); i < std::min(lines.last, t.Y + t.pad); ++i) {
      Transposed(plane + (i - t.pad) * t.X, t.Y * t.X, {channels, inside},
                 to + i % t.in * size + t.pad * pitch + channel, pitch);
    }
  });
}

// Lines of planes, all of them new to the caches.
struct Lines {
  static constexpr int64_t kLine = 16;  // numbers
  const float* data;
  int64_t plane, planes, lines;  // of each plane so many lines
};

// Those of rows of tiles of one image, without what they share with the row above.
Lines LinesOf(const TileRows& t, Channels c, const float* x, RowSpan rows) {
  if (rows.first >= rows.last) return {};
  const int64_t first = rows.first % t.down, count = rows.last - rows.first;
  const int64_t y = std::max<int64_t>(0, first * t.step - t.pad + (first > 0 ? t.in - t.step : 0));
  const int64_t last = std::min(t.Y, (first + count - 1) * t.step - t.pad + t.in);
  return {x + rows.first / t.down * t.image() + (c.first * t.Y + y) * t.X, t.Y * t.X, c.count,
          DivCeil((last - y) * t.X, Lines::kLine)};
}

// As many rows as these, below them.
HWY_INLINE RowSpan Below(RowSpan rows, int64_t all) {
  return {rows.last, std::min(2 * rows.last - rows.first, all)};
}

// What products fetch while they compute, which leaves the memory idle: with each call as many
// lines as C has tiles, of as many planes as the product is deep.
class Fetch {
 public:
  Fetch(Lines first, Lines second) : now_(first), then_(second) {}
  Ahead take(int64_t rows, int64_t depth) {
    if (now_.planes <= 0) now_ = std::exchange(then_, {});
    if (now_.planes <= 0) return {};
    const int64_t count = std::min(now_.lines - done_, rows / kTileRows);
    const Ahead ahead{now_.data + done_ * Lines::kLine, now_.plane, count};
    done_ += count;
    if (done_ >= now_.lines) {
      now_.data += depth * now_.plane;
      now_.planes -= depth;
      done_ = 0;
    }
    return ahead;
  }

 private:
  Lines now_, then_;
  int64_t done_ = 0;
};

// v[point][tile] = Of both ways. `lines` has room for t.in of them: rows of tiles share some.
template <int kIn, int kPoints, class Of>
void ToPoints(const TileRows& t, RowSpan rows, Channels c, const float* x, float* lines, Slots v,
              Of of) {
  const F d;
  int64_t tile = 0;
  for (int64_t row = rows.first; row < rows.last; ++row) {
    const int64_t top = row % t.down * t.step;
    const bool shares = row > rows.first && top > 0;
    Lay(t, x + row / t.down * t.image() + c.first * t.Y * t.X, c,
        {top + (shares ? kIn - t.step : 0), top + kIn}, lines);
    const float* line[kIn];
    for (int64_t i = 0; i < kIn; ++i) line[i] = lines + (top + i) % kIn * t.line() * c.pitch();
    for (int64_t across = 0; across < t.across; ++across, ++tile) {
      const int64_t first = across * t.step * c.pitch();
      float* to = v.at(0, tile);
      for (int64_t at = 0; at < v.width; at += kLanes) {
        BothWays<kIn, kPoints>(
            of,
            [&](int i, int j)
                HWY_ATTR { return hn::Load(d, line[i] + first + j * c.pitch() + at); },
            [&](int i, int j, Vec point)
                HWY_ATTR { hn::Store(point, d, to + (i * kPoints + j) * v.step + at); });
      }
    }
  }
}

// The places of tiles, which do not overlap, written to y: laid out as its rows are, so that they
// go there in whole squares. What a row's last tile has beyond it is written first, and written
// over. finite(image, whether a row of tiles is)
template <int kPoints, int kOut, class Of, class Finite>
void FromPoints(const TileRows& t, RowSpan rows, Channels c, Slots m, float* lines, float* y, Of of,
                const Finite& finite) {
  const F d;
  const int64_t pitch = c.pitch(), line = t.X * pitch;
  for (int64_t row = rows.first; row < rows.last; ++row) {
    const int64_t tile = (row - rows.first) * t.across, top = row % t.down * kOut;
    Vec zeros = hn::Zero(d);  // 0·y: NaN where a number is not finite
    for (int64_t across = t.across - 1; across >= 0; --across) {
      const float* from = m.at(0, tile + across);
      float* to = lines + across * kOut * pitch;
      for (int64_t at = 0; at < m.width; at += kLanes) {
        BothWays<kPoints, kOut>(
            of,
            [&](int i, int j)
                HWY_ATTR { return hn::Load(d, from + (i * kPoints + j) * m.step + at); },
            [&](int i, int j, Vec place) HWY_ATTR {
              zeros = hn::MulAdd(place, hn::Zero(d), zeros);
              hn::Store(place, d, to + i * line + j * pitch + at);
            });
      }
    }
    const int64_t image = row / t.down;
    finite(image, hn::AllTrue(d, hn::Eq(zeros, zeros)));
    float* to = y + image * t.image() + c.first * t.Y * t.X + top * t.X;
    const int64_t places = std::min<int64_t>(kOut, t.Y - top) * t.X;
    BySquares(c.count, [&](int64_t channel, int64_t channels) HWY_ATTR {
      Transposed(lines + channel, pitch, {places, channels}, to + channel * t.Y * t.X, t.Y * t.X);
    });
  }
}

}  // namespace
}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_WINOGRAD_INL_H_
