#include "kernels/lookup.h"

#include <algorithm>
#include <cstring>

#include "core/threads.h"

namespace fovea::kernels {
namespace {

constexpr int64_t kColumns = 64;  // of one task that adds

// body(o, begin, end) for every outer index and tile of inner columns, n rows each.
template <class F>
void for_tiles(Middle m, int64_t n, const F& body) {
  const int64_t tiles = (m.inner + kColumns - 1) / kColumns;
  parallel_for(m.outer * tiles, n * std::min(m.inner, kColumns), [&](int64_t task) {
    const int64_t begin = task % tiles * kColumns;
    body(task / tiles, begin, std::min(m.inner, begin + kColumns));
  });
}

}  // namespace

template <class T>
void take_rows(Middle m, const int64_t* ids, int64_t n, const T* x, T* y) {
  if (m.inner == 0) return;
  parallel_for(m.outer * n, m.inner, [&](int64_t r) {
    const int64_t from = r / n * m.size + ids[r % n];
    std::memcpy(y + r * m.inner, x + from * m.inner, m.inner * sizeof(T));
  });
}
template void take_rows(Middle, const int64_t*, int64_t, const float*, float*);
template void take_rows(Middle, const int64_t*, int64_t, const int64_t*, int64_t*);

void add_rows(Middle m, const int64_t* ids, int64_t n, const float* y, float* x) {
  for_tiles(m, n, [&](int64_t o, int64_t begin, int64_t end) {
    for (int64_t i = 0; i < n; ++i) {
      float* to = x + (o * m.size + ids[i]) * m.inner;
      const float* from = y + (o * n + i) * m.inner;
      for (int64_t c = begin; c < end; ++c) to[c] += from[c];
    }
  });
}

void take_along(Middle m, const int64_t* ids, int64_t n, const float* x, float* y) {
  for_tiles(m, n, [&](int64_t o, int64_t begin, int64_t end) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = (o * n + i) * m.inner;
      for (int64_t c = begin; c < end; ++c) y[at + c] = x[(o * m.size + ids[at + c]) * m.inner + c];
    }
  });
}

void add_along(Middle m, const int64_t* ids, int64_t n, const float* y, float* x) {
  for_tiles(m, n, [&](int64_t o, int64_t begin, int64_t end) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = (o * n + i) * m.inner;
      for (int64_t c = begin; c < end; ++c)
        x[(o * m.size + ids[at + c]) * m.inner + c] += y[at + c];
    }
  });
}

int64_t first_outside(const int64_t* ids, int64_t n, int64_t size) {
  return std::find_if(ids, ids + n, [&](int64_t id) { return id < 0 || id >= size; }) - ids;
}

}  // namespace fovea::kernels
