#include "kernels/conv.h"

#include <algorithm>
#include <limits>

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

// body(row of columns, x plane row, places that lie inside) for every weight and output row; a
// null plane row lies outside.
template <class Body>
void for_rows(const Window& w, const Body& body) {
  for (int64_t c = 0; c < w.C; ++c) {
    for (int64_t ky = 0; ky < w.KY; ++ky) {
      for (int64_t kx = 0; kx < w.KX; ++kx) {
        const int64_t weight = (c * w.KY + ky) * w.KX + kx;
        const int64_t shift_x = kx * w.dilation_x - w.pad_x;
        const Range ox = inside(w.OX, w.stride_x, shift_x, w.X);
        for (int64_t oy = 0; oy < w.OY; ++oy) {
          const int64_t y = oy * w.stride_y + ky * w.dilation_y - w.pad_y;
          const bool out = y < 0 || y >= w.Y;
          body((weight * w.OY + oy) * w.OX, (c * w.Y + y) * w.X + shift_x, out ? Range{0, 0} : ox);
        }
      }
    }
  }
}

// body(place, y range, x range) of the window's part inside the plane.
template <class Body>
void for_windows(const Window& w, const Body& body) {
  for (int64_t oy = 0; oy < w.OY; ++oy) {
    const int64_t y = oy * w.stride_y - w.pad_y;
    const Range ys{std::max<int64_t>(y, 0), std::min(y + w.KY, w.Y)};
    for (int64_t ox = 0; ox < w.OX; ++ox) {
      const int64_t x = ox * w.stride_x - w.pad_x;
      body(oy * w.OX + ox, ys, Range{std::max<int64_t>(x, 0), std::min(x + w.KX, w.X)});
    }
  }
}

}  // namespace

void unfold(const Window& w, const float* x, float* columns) {
  for_rows(w, [&](int64_t row, int64_t from, Range ox) {
    float* to = columns + row;
    std::fill(to, to + ox.begin, 0.0f);
    if (w.stride_x == 1) {
      std::copy(x + from + ox.begin, x + from + ox.end, to + ox.begin);
    } else {
      for (int64_t o = ox.begin; o < ox.end; ++o) to[o] = x[from + o * w.stride_x];
    }
    std::fill(to + ox.end, to + w.OX, 0.0f);
  });
}

void fold(const Window& w, const float* columns, float* x) {
  for_rows(w, [&](int64_t row, int64_t from, Range ox) {
    for (int64_t o = ox.begin; o < ox.end; ++o) x[from + o * w.stride_x] += columns[row + o];
  });
}

void max_pool(const Window& w, const float* x, float* y, int64_t* from) {
  for_windows(w, [&](int64_t place, Range ys, Range xs) {
    float best = -std::numeric_limits<float>::infinity();
    int64_t at = ys.begin * w.X + xs.begin;
    for (int64_t i = ys.begin; i < ys.end; ++i) {
      for (int64_t j = xs.begin; j < xs.end; ++j) {
        const float v = x[i * w.X + j];
        if (v > best || v != v) {
          best = v;
          at = i * w.X + j;
        }
      }
    }
    y[place] = best;
    from[place] = at;
  });
}

void avg_pool(const Window& w, const float* x, float* y) {
  const float part = 1.0f / static_cast<float>(w.KY * w.KX);
  for_windows(w, [&](int64_t place, Range ys, Range xs) {
    float sum = 0.0f;
    for (int64_t i = ys.begin; i < ys.end; ++i) {
      for (int64_t j = xs.begin; j < xs.end; ++j) sum += x[i * w.X + j];
    }
    y[place] = sum * part;
  });
}

void d_avg_pool(const Window& w, const float* dy, float* dx) {
  const float part = 1.0f / static_cast<float>(w.KY * w.KX);
  for_windows(w, [&](int64_t place, Range ys, Range xs) {
    for (int64_t i = ys.begin; i < ys.end; ++i) {
      for (int64_t j = xs.begin; j < xs.end; ++j) dx[i * w.X + j] += dy[place] * part;
    }
  });
}

}  // namespace fovea::kernels
