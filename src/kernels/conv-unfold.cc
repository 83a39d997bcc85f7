#include "kernels/conv-unfold.h"

#include <algorithm>
#include <cstring>

#include "core/allocator.h"
#include "core/threads.h"
#include "kernels/gemm.h"

namespace fovea::kernels {
namespace {

struct Range {
  int64_t begin, end;
};

// The places o with 0 ≤ o·stride + shift < size.
Range inside(int64_t places, int64_t stride, int64_t shift, int64_t size) {
  const int64_t begin = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
  const int64_t end = size - shift <= 0 ? 0 : (size - shift + stride - 1) / stride;
  return {std::min(begin, places), std::clamp<int64_t>(end, std::min(begin, places), places)};
}

// body(row of columns, x plane row, places that lie inside) for every weight and every row of
// places in `rows`; who lies outside has no places.
template <class Body>
void for_rows(const Window& w, Range rows, const Body& body) {
  const int64_t count = rows.end - rows.begin;
  for (int64_t c = 0; c < w.C; ++c) {
    for (int64_t ky = 0; ky < w.KY; ++ky) {
      for (int64_t kx = 0; kx < w.KX; ++kx) {
        const int64_t weight = (c * w.KY + ky) * w.KX + kx;
        const int64_t shift_x = kx * w.dilation_x - w.pad_x;
        const Range ox = inside(w.OX, w.stride_x, shift_x, w.X);
        for (int64_t oy = rows.begin; oy < rows.end; ++oy) {
          const int64_t y = oy * w.stride_y + ky * w.dilation_y - w.pad_y;
          const bool out = y < 0 || y >= w.Y;
          body((weight * count + oy - rows.begin) * w.OX, (c * w.Y + y) * w.X + shift_x,
               out ? Range{0, 0} : ox);
        }
      }
    }
  }
}

// n numbers, few enough that a call would cost more than they do.
inline void copy_few(const float* from, int64_t n, float* to) {
  constexpr int64_t kPiece = 16;
  for (; n >= kPiece; n -= kPiece, from += kPiece, to += kPiece) {
    std::memcpy(to, from, kPiece * sizeof(float));
  }
  for (int64_t i = 0; i < n; ++i) to[i] = from[i];
}

// columns [K, places of the rows]: what each weight meets at each place; 0 outside.
void unfold(const Window& w, Range rows, const float* x, float* columns) {
  for_rows(w, rows, [&](int64_t row, int64_t from, Range ox) {
    float* to = columns + row;
    for (int64_t o = 0; o < ox.begin; ++o) to[o] = 0.0f;
    if (w.stride_x == 1) {
      copy_few(x + from + ox.begin, ox.end - ox.begin, to + ox.begin);
    } else {
      for (int64_t o = ox.begin; o < ox.end; ++o) to[o] = x[from + o * w.stride_x];
    }
    for (int64_t o = ox.end; o < w.OX; ++o) to[o] = 0.0f;
  });
}

// x += the columns, back where they came from.
void fold(const Window& w, Range rows, const float* columns, float* x) {
  for_rows(w, rows, [&](int64_t row, int64_t from, Range ox) {
    for (int64_t o = ox.begin; o < ox.end; ++o) x[from + o * w.stride_x] += columns[row + o];
  });
}

// The places of a group of an image are taken in strips of whole rows, so that a strip's columns
// stay in a core's cache; of the heights that do, the one that fills the most of a product's
// panels.
class Strips {
 public:
  explicit Strips(const Convolution& c) : places_(c.window.OY), across_(c.window.OX) {
    constexpr int64_t kNumbers = 64 * 1024, kPanel = 64;
    const int64_t most = std::clamp<int64_t>(kNumbers / std::max<int64_t>(1, c.K() * across_), 1,
                                             std::max<int64_t>(1, places_));
    double best = 0.0;
    for (int64_t rows = 1; rows <= most; ++rows) {
      const int64_t n = rows * across_, panels = (n + kPanel - 1) / kPanel;
      const double filled = static_cast<double>(n) / static_cast<double>(panels * kPanel);
      if (filled >= best) {
        best = filled;
        height_ = rows;
      }
    }
  }
  int64_t count() const { return (places_ + height_ - 1) / height_; }
  Range rows(int64_t strip) const {
    return {strip * height_, std::min(places_, (strip + 1) * height_)};
  }
  int64_t most_places() const { return height_ * across_; }

 private:
  int64_t places_, across_, height_ = 1;
};

int64_t x_size(const Convolution& c) { return c.window.C * c.window.Y * c.window.X; }

// Numbers touched by one strip.
int64_t work(const Convolution& c, const Strips& s) {
  return c.K() * s.most_places() * (1 + c.O / 16);
}

// A strip's columns: some of x, or unfolded into scratch.
struct Columns {
  const float* data;
  int64_t row, places;
};
Columns columns_of(const Convolution& c, Range rows, const float* x, const Buffer<float>& scratch) {
  const int64_t places = (rows.end - rows.begin) * c.window.OX;
  if (is_plain(c.window)) return {x + rows.begin * c.window.OX, c.P(), places};
  unfold(c.window, rows, x, scratch.data());
  return {scratch.data(), places, places};
}

Buffer<float> scratch_of(const Convolution& c, const Strips& s) {
  return Buffer<float>(is_plain(c.window) ? 0 : c.K() * s.most_places());
}

}  // namespace

void unfolded(const Convolution& c, const float* x, const float* w, float* y) {
  const int64_t K = c.K(), P = c.P();
  const Strips strips(c);
  parallel_for(c.N * c.G * strips.count(), work(c, strips), [&](int64_t task) {
    const int64_t i = task / strips.count();
    const Range rows = strips.rows(task % strips.count());
    const Buffer<float> scratch = scratch_of(c, strips);
    const Columns columns = columns_of(c, rows, x + i * x_size(c), scratch);
    gemm({.m = c.O,
          .n = columns.places,
          .k = K,
          .a = w + i % c.G * c.O * K,
          .a_row = K,
          .b = columns.data,
          .b_row = columns.row,
          .c = y + i * c.O * P + rows.begin * c.window.OX,
          .c_row = P});
  });
}

void unfolded_d_x(const Convolution& c, const float* w, const float* dy, float* dx) {
  const int64_t K = c.K(), P = c.P();
  const Strips strips(c);
  parallel_for(c.N * c.G, strips.count() * work(c, strips), [&](int64_t i) {
    const Buffer<float> columns(K * strips.most_places());
    float* to = dx + i * x_size(c);
    std::fill_n(to, x_size(c), 0.0f);
    for (int64_t strip = 0; strip < strips.count(); ++strip) {
      const Range rows = strips.rows(strip);
      const int64_t places = (rows.end - rows.begin) * c.window.OX;
      gemm({.m = K,
            .n = places,
            .k = c.O,
            .a = w + i % c.G * c.O * K,
            .a_row = 1,
            .a_col = K,
            .b = dy + i * c.O * P + rows.begin * c.window.OX,
            .b_row = P,
            .c = columns.data(),
            .c_row = places});
      fold(c.window, rows, columns.data(), to);
    }
  });
}

namespace {

// sum [K,O] += columns·dyᵀ of one strip: of the two, dy is the one that has to be transposed.
void add_weights(const Convolution& c, const Columns& columns, const float* dy, bool first,
                 float* sum) {
  gemm({.m = c.K(),
        .n = c.O,
        .k = columns.places,
        .a = columns.data,
        .a_row = columns.row,
        .b = dy,
        .b_row = 1,
        .b_col = c.P(),
        .c = sum,
        .c_row = c.O,
        .plus = first ? nullptr : sum,
        .plus_row = c.O});
}

}  // namespace

void unfolded_d_w(const Convolution& c, const float* x, const float* dy, float* dw) {
  const int64_t K = c.K(), P = c.P(), size = c.O * K;
  const Strips strips(c);
  const int64_t all = c.N * strips.count(), each = std::max<int64_t>(1, (all + 15) / 16);
  const int64_t parts = (all + each - 1) / each;
  const Buffer<float> partial(parts * c.G * size);
  parallel_for(parts * c.G, each * work(c, strips), [&](int64_t task) {
    const int64_t part = task / c.G, g = task % c.G;
    const Buffer<float> scratch = scratch_of(c, strips);
    for (int64_t s = part * each; s < std::min(all, (part + 1) * each); ++s) {
      const int64_t i = s / strips.count() * c.G + g;
      const Range rows = strips.rows(s % strips.count());
      add_weights(c, columns_of(c, rows, x + i * x_size(c), scratch),
                  dy + i * c.O * P + rows.begin * c.window.OX, s == part * each,
                  partial.data() + task * size);
    }
  });
  parallel_for(c.G * c.O, parts * K, [&](int64_t row) {
    const int64_t g = row / c.O, o = row % c.O;
    float* to = dw + row * K;
    std::fill_n(to, K, 0.0f);
    for (int64_t part = 0; part < parts; ++part) {
      const float* from = partial.data() + (part * c.G + g) * size + o;
      for (int64_t k = 0; k < K; ++k) to[k] += from[k * c.O];
    }
  });
}

}  // namespace fovea::kernels
