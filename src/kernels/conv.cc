#include "kernels/conv.h"

#include <algorithm>
#include <limits>

#include "core/memory.h"
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

namespace {

int64_t x_size(const Convolution& c) { return c.window.C * c.window.Y * c.window.X; }

// Numbers touched by one group of one image.
int64_t work(const Convolution& c) { return c.K() * c.P() * (1 + c.O / 16); }

// 1×1, one by one, no margin: the columns are x itself.
bool is_plain(const Window& w) {
  return w.KY * w.KX == 1 && w.stride_y * w.stride_x == 1 && w.pad_y + w.pad_x == 0;
}

}  // namespace

void conv(const Convolution& c, const float* x, const float* w, float* y) {
  const bool plain = is_plain(c.window);
  const int64_t K = c.K(), P = c.P();
  parallel_for(c.N * c.G, work(c), [&](int64_t i) {
    const float* from = x + i * x_size(c);
    Buffer<float> columns;
    if (!plain) {
      columns = Buffer<float>(K * P);
      unfold(c.window, from, columns.data());
    }
    gemm({.m = c.O,
          .n = P,
          .k = K,
          .a = w + i % c.G * c.O * K,
          .a_row = K,
          .b = plain ? from : columns.data(),
          .b_row = P,
          .c = y + i * c.O * P,
          .c_row = P});
  });
}

void d_conv_x(const Convolution& c, const float* w, const float* dy, float* dx) {
  const bool plain = is_plain(c.window);
  const int64_t K = c.K(), P = c.P();
  parallel_for(c.N * c.G, work(c), [&](int64_t i) {
    const Buffer<float> columns(plain ? 0 : K * P);
    float* to = dx + i * x_size(c);
    gemm({.m = K,
          .n = P,
          .k = c.O,
          .a = w + i % c.G * c.O * K,
          .a_row = 1,
          .a_col = K,
          .b = dy + i * c.O * P,
          .b_row = P,
          .c = plain ? to : columns.data(),
          .c_row = P});
    if (!plain) {
      std::fill_n(to, x_size(c), 0.0f);
      fold(c.window, columns.data(), to);
    }
  });
}

void d_conv_w(const Convolution& c, const float* x, const float* dy, float* dw) {
  const bool plain = is_plain(c.window);
  const int64_t K = c.K(), P = c.P(), size = c.G * c.O * K;
  std::fill_n(dw, size, 0.0f);
  if (c.N == 0) return;
  const int64_t each = (c.N + 15) / 16, parts = (c.N + each - 1) / each;
  const Buffer<float> partial(parts * size);
  parallel_for(parts * c.G, each * work(c), [&](int64_t task) {
    const int64_t part = task / c.G, g = task % c.G;
    const Buffer<float> columns(plain ? 0 : K * P);
    float* to = partial.data() + part * size + g * c.O * K;
    for (int64_t n = part * each; n < std::min(c.N, (part + 1) * each); ++n) {
      const int64_t i = n * c.G + g;
      const float* from = x + i * x_size(c);
      if (!plain) unfold(c.window, from, columns.data());
      gemm({.m = c.O,
            .n = K,
            .k = P,
            .a = dy + i * c.O * P,
            .a_row = P,
            .b = plain ? from : columns.data(),
            .b_row = 1,
            .b_col = P,
            .c = to,
            .c_row = K,
            .plus = n == part * each ? nullptr : to,
            .plus_row = K});
    }
  });
  for (int64_t part = 0; part < parts; ++part) {
    for (int64_t i = 0; i < size; ++i) dw[i] += partial[part * size + i];
  }
}

namespace {

void max_pool_plane(const Window& w, const float* x, float* y, int64_t* from) {
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

void avg_pool_plane(const Window& w, const float* x, float* y) {
  const float part = 1.0f / static_cast<float>(w.KY * w.KX);
  for_windows(w, [&](int64_t place, Range ys, Range xs) {
    float sum = 0.0f;
    for (int64_t i = ys.begin; i < ys.end; ++i) {
      for (int64_t j = xs.begin; j < xs.end; ++j) sum += x[i * w.X + j];
    }
    y[place] = sum * part;
  });
}

void d_avg_pool_plane(const Window& w, const float* dy, float* dx) {
  const float part = 1.0f / static_cast<float>(w.KY * w.KX);
  for_windows(w, [&](int64_t place, Range ys, Range xs) {
    for (int64_t i = ys.begin; i < ys.end; ++i) {
      for (int64_t j = xs.begin; j < xs.end; ++j) dx[i * w.X + j] += dy[place] * part;
    }
  });
}

// body(a plane's offset in x, its offset in y)
template <class Body>
void for_planes(const Pooling& p, const Body& body) {
  const int64_t in = p.window.Y * p.window.X, out = p.window.OY * p.window.OX;
  parallel_for(p.planes, out * p.window.KY * p.window.KX,
               [&](int64_t plane) { body(plane * in, plane * out); });
}

}  // namespace

void max_pool(const Pooling& p, const float* x, float* y, int64_t* from) {
  for_planes(
      p, [&](int64_t in, int64_t out) { max_pool_plane(p.window, x + in, y + out, from + out); });
}

void d_max_pool(const Pooling& p, const int64_t* from, const float* dy, float* dx) {
  const int64_t n = p.window.OY * p.window.OX;
  for_planes(p, [&](int64_t in, int64_t out) {
    for (int64_t i = out; i < out + n; ++i) dx[in + from[i]] += dy[i];
  });
}

void avg_pool(const Pooling& p, const float* x, float* y) {
  for_planes(p, [&](int64_t in, int64_t out) { avg_pool_plane(p.window, x + in, y + out); });
}

void d_avg_pool(const Pooling& p, const float* dy, float* dx) {
  for_planes(p, [&](int64_t in, int64_t out) { d_avg_pool_plane(p.window, dy + out, dx + in); });
}

}  // namespace fovea::kernels
