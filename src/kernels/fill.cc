#include "kernels/fill.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "core/threads.h"

namespace fovea::kernels {
namespace {

constexpr int64_t kChunk = 1 << 15;

template <class F>
void fill_by_index(int64_t n, float* y, const F& value) {
  parallel_for((n + kChunk - 1) / kChunk, [&](int64_t chunk) {
    const int64_t end = std::min(n, (chunk + 1) * kChunk);
    for (int64_t i = chunk * kChunk; i < end; ++i) y[i] = value(i);
  });
}

}  // namespace

void count_up(int64_t n, int64_t* y) { std::iota(y, y + n, int64_t{0}); }

void uniform(RandomKey key, int64_t n, float* y) {
  fill_by_index(n, y,
                [&](int64_t i) { return static_cast<float>(bits32(key, i) >> 8) * 0x1p-24f; });
}

void normal(RandomKey u, RandomKey v, int64_t n, float* y) {
  fill_by_index(n, y, [&](int64_t i) {
    const double radius = std::sqrt(-2.0 * std::log(unit_open(bits32(u, i))));
    return static_cast<float>(radius * std::cos(2.0 * std::numbers::pi * unit_open(bits32(v, i))));
  });
}

}  // namespace fovea::kernels
