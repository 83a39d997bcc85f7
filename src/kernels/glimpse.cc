#include "kernels/glimpse.h"

#include <algorithm>
#include <cmath>

#include "core/allocator.h"
#include "core/threads.h"

namespace fovea::kernels {
namespace {

struct Square {
  int64_t y, x, size, each;  // each: pixels averaged along a side
};

// Sums of `each` neighbours of a row, added up: to[i] += Σ_j row[i·each + j].
void add_groups(const float* row, int64_t n, int64_t each, float* to) {
  if (each == 1) {
    for (int64_t i = 0; i < n; ++i) to[i] += row[i];
  } else if (each == 2) {
    for (int64_t i = 0; i < n; ++i) to[i] += row[2 * i] + row[2 * i + 1];
  } else if (each == 4) {
    for (int64_t i = 0; i < n; ++i) {
      to[i] += (row[4 * i] + row[4 * i + 1]) + (row[4 * i + 2] + row[4 * i + 3]);
    }
  } else {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < each; ++j) to[i] += row[i * each + j];
    }
  }
}

void average(const Glimpses& g, const float* image, const Square& q, float* row, float* seen) {
  const int64_t side = q.size * q.each;
  const int64_t from = std::clamp<int64_t>(-q.x, 0, side),
                to = std::clamp<int64_t>(g.X - q.x, 0, side);
  const float share = 1.0f / static_cast<float>(q.each * q.each);
  for (int64_t y = 0; y < q.size; ++y) {
    float* out = seen + y * q.size;
    std::fill(row, row + side, 0.0f);
    const int64_t first = std::max<int64_t>(q.y + y * q.each, 0);
    const int64_t last = std::min(q.y + (y + 1) * q.each, g.Y);
    for (int64_t at = first; at < last; ++at) {
      const float* line = image + at * g.X + q.x;
      for (int64_t x = from; x < to; ++x) row[x] += line[x];
    }
    std::fill(out, out + q.size, 0.0f);
    add_groups(row, q.size, q.each, out);
    for (int64_t x = 0; x < q.size; ++x) out[x] *= share;
  }
}

}  // namespace

int64_t first_pixel(float p, int64_t side, int64_t length) {
  const float middle = (p + 1.0f) * 0.5f * static_cast<float>(length);
  return static_cast<int64_t>(std::lround(middle - 0.5f * static_cast<float>(side)));
}

void sense(const Glimpses& g, const float* images, const float* places, float* seen) {
  const int64_t patch = g.size * g.size, widest = g.size << (g.scales - 1);
  parallel_for(g.N, widest * widest + patch * g.scales, [&](int64_t i) {
    const Buffer<float> row(widest);
    const float* image = images + i % g.B * g.Y * g.X;
    for (int64_t s = 0; s < g.scales; ++s) {
      const int64_t each = int64_t{1} << s, side = g.size * each;
      average(g, image,
              {first_pixel(places[2 * i + 1], side, g.Y), first_pixel(places[2 * i], side, g.X),
               g.size, each},
              row.data(), seen + (i * g.scales + s) * patch);
    }
  });
}

}  // namespace fovea::kernels
