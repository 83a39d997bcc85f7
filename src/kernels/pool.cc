#include "kernels/pool.h"

#include <algorithm>
#include <limits>

#include "core/threads.h"

namespace fovea::kernels {
namespace {

struct Reach {
  int64_t begin, end;
};

// body(place, y range, x range) of the window's part inside the plane.
template <class Body>
void for_windows(const Window& w, const Body& body) {
  for (int64_t oy = 0; oy < w.OY; ++oy) {
    const int64_t y = oy * w.stride_y - w.pad_y;
    const Reach ys{std::max<int64_t>(y, 0), std::min(y + w.KY, w.Y)};
    for (int64_t ox = 0; ox < w.OX; ++ox) {
      const int64_t x = ox * w.stride_x - w.pad_x;
      body(oy * w.OX + ox, ys, Reach{std::max<int64_t>(x, 0), std::min(x + w.KX, w.X)});
    }
  }
}

void max_pool_plane(const Window& w, const float* x, float* y, int64_t* from) {
  for_windows(w, [&](int64_t place, Reach ys, Reach xs) {
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
  for_windows(w, [&](int64_t place, Reach ys, Reach xs) {
    float sum = 0.0f;
    for (int64_t i = ys.begin; i < ys.end; ++i) {
      for (int64_t j = xs.begin; j < xs.end; ++j) sum += x[i * w.X + j];
    }
    y[place] = sum * part;
  });
}

void d_avg_pool_plane(const Window& w, const float* dy, float* dx) {
  const float part = 1.0f / static_cast<float>(w.KY * w.KX);
  for_windows(w, [&](int64_t place, Reach ys, Reach xs) {
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
