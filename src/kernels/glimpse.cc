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

// to[i] = factor·Σ_j row[i·kEach + j], n of them.
template <int64_t kEach>
void average_groups(const float* __restrict row, int64_t n, float factor, float* __restrict to) {
  for (int64_t i = 0; i < n; ++i) {
    const float* from = row + i * kEach;
    float sum = from[0];
    if constexpr (kEach == 2) sum += from[1];
    if constexpr (kEach == 4) sum = (sum + from[1]) + (from[2] + from[3]);
    to[i] = factor * sum;
  }
}

void average_groups(const float* __restrict row, int64_t n, int64_t each, float factor,
                    float* __restrict to) {
  if (each == 1) return average_groups<1>(row, n, factor, to);
  if (each == 2) return average_groups<2>(row, n, factor, to);
  if (each == 4) return average_groups<4>(row, n, factor, to);
  for (int64_t i = 0; i < n; ++i) {
    float sum = 0.0f;
    for (int64_t j = 0; j < each; ++j) sum += row[i * each + j];
    to[i] = factor * sum;
  }
}

// Some lines of an image.
struct Lines {
  const float* first;
  int64_t count, step;
};

// row[x] = Σ_k lines[k][x], n of them. What is not told to overlap, and how many lines there are,
// lets the compiler keep the sums of some places in registers.
template <int64_t kCount>
void sum_lines(const Lines& lines, int64_t n, float* __restrict row) {
  const float* __restrict first = lines.first;
  const int64_t step = lines.step;
  for (int64_t x = 0; x < n; ++x) {
    float sum = first[x];
    for (int64_t k = 1; k < kCount; ++k) sum += first[k * step + x];
    row[x] = sum;
  }
}

void sum_lines(const Lines& lines, int64_t n, float* __restrict row) {
  if (lines.count == 1) return sum_lines<1>(lines, n, row);
  if (lines.count == 2) return sum_lines<2>(lines, n, row);
  if (lines.count == 4) return sum_lines<4>(lines, n, row);
  std::fill_n(row, n, 0.0f);
  for (int64_t k = 0; k < lines.count; ++k) {
    const float* __restrict line = lines.first + k * lines.step;
    for (int64_t x = 0; x < n; ++x) row[x] += line[x];
  }
}

void average(const Glimpses& g, const float* image, const Square& q, float* row, float* seen) {
  const int64_t side = q.size * q.each;
  const int64_t from = std::clamp<int64_t>(-q.x, 0, side),
                to = std::clamp<int64_t>(g.X - q.x, 0, side);
  const float share = 1.0f / static_cast<float>(q.each * q.each);
  std::fill(row, row + side, 0.0f);
  for (int64_t y = 0; y < q.size; ++y) {
    const int64_t first = std::clamp<int64_t>(q.y + y * q.each, 0, g.Y);
    const int64_t last = std::clamp<int64_t>(q.y + (y + 1) * q.each, first, g.Y);
    sum_lines({image + first * g.X + q.x + from, last - first, g.X}, to - from, row + from);
    average_groups(row, q.size, q.each, share, seen + y * q.size);
  }
}

}  // namespace

int64_t first_pixel(float p, int64_t side, int64_t length) {
  const float middle = (p + 1.0f) * 0.5f * static_cast<float>(length);
  return static_cast<int64_t>(std::lround(middle - 0.5f * static_cast<float>(side)));
}

void sense(const Glimpses& g, const float* images, const float* places, float* seen) {
  const int64_t patch = g.size * g.size, widest = g.size << (g.scales - 1);
  const Crew crew;
  const Buffer<float> rows(crew.size() * widest);
  crew.run(g.N, widest * widest + patch * g.scales, [&](int64_t i, int place) {
    const float* image = images + i % g.B * g.Y * g.X;
    for (int64_t s = 0; s < g.scales; ++s) {
      const int64_t each = int64_t{1} << s, side = g.size * each;
      average(g, image,
              {first_pixel(places[2 * i + 1], side, g.Y), first_pixel(places[2 * i], side, g.X),
               g.size, each},
              rows.data() + place * widest, seen + (i * g.scales + s) * patch);
    }
  });
}

}  // namespace fovea::kernels
