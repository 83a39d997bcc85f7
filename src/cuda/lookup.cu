#include "cuda/loops.cuh"
#include "cuda/table.h"

// Reading by id is one thread an element. Adding by id gives each row of the table to one warp,
// which goes through the ids in their order, 32 at a time, and adds those that are its own: the
// same bits twice, and no atomics. That is n reads of ids for each row that is met; rows that
// nobody asks for are found by a first pass over the ids and left alone.
namespace fovea::cuda {
namespace {

__global__ __launch_bounds__(kThreads) void take(Middle m, const int64_t* ids, int64_t n,
                                                 const float* x, float* y) {
  const int64_t all = m.outer * n * m.inner;
  for (int64_t t = first_element(); t < all; t += element_step()) {
    const int64_t c = t % m.inner, r = t / m.inner;
    y[t] = x[(r / n * m.size + ids[r % n]) * m.inner + c];
  }
}

__global__ __launch_bounds__(kThreads) void take_each(Middle m, const int64_t* ids, int64_t n,
                                                      const float* x, float* y) {
  const int64_t all = m.outer * n * m.inner;
  for (int64_t t = first_element(); t < all; t += element_step()) {
    const int64_t c = t % m.inner, o = t / m.inner / n;
    y[t] = x[(o * m.size + ids[t]) * m.inner + c];
  }
}

// first[id] = where it stands first; n: nowhere.
__global__ __launch_bounds__(kThreads) void find_first(const int64_t* ids, int64_t n,
                                                       unsigned long long* first) {
  for (int64_t i = first_element(); i < n; i += element_step()) {
    atomicMin(first + ids[i], static_cast<unsigned long long>(i));
  }
}

__global__ __launch_bounds__(kThreads) void add(Middle m, const int64_t* ids, int64_t n,
                                                const float* y, float* x,
                                                const unsigned long long* first) {
  constexpr int kColumns = 4;  // of 32, that a warp has at once
  const int lane = threadIdx.x % 32;
  const int64_t tiles = (m.inner + 32 * kColumns - 1) / (32 * kColumns);
  const int64_t all = m.outer * m.size * tiles;
  for (int64_t t = first_element() / 32; t < all; t += element_step() / 32) {
    const int64_t id = t / tiles % m.size, o = t / tiles / m.size;
    const int64_t begin = static_cast<int64_t>(first[id]), c0 = t % tiles * 32 * kColumns + lane;
    if (begin >= n) continue;
    float sum[kColumns];
    float* to = x + (o * m.size + id) * m.inner;
#pragma unroll
    for (int k = 0; k < kColumns; ++k) sum[k] = c0 + 32 * k < m.inner ? to[c0 + 32 * k] : 0.0f;
    for (int64_t i0 = begin; i0 < n; i0 += 32) {
      unsigned mine = __ballot_sync(0xffffffffu, i0 + lane < n && ids[i0 + lane] == id);
      while (mine != 0) {
        const int64_t i = i0 + __ffs(static_cast<int>(mine)) - 1;
        mine &= mine - 1;
        const float* from = y + (o * n + i) * m.inner;
#pragma unroll
        for (int k = 0; k < kColumns; ++k) {
          if (c0 + 32 * k < m.inner) sum[k] += from[c0 + 32 * k];
        }
      }
    }
#pragma unroll
    for (int k = 0; k < kColumns; ++k) {
      if (c0 + 32 * k < m.inner) to[c0 + 32 * k] = sum[k];
    }
  }
}

// A column of its own for each thread: places of different columns never meet.
__global__ __launch_bounds__(kThreads) void add_each(Middle m, const int64_t* ids, int64_t n,
                                                     const float* y, float* x) {
  for (int64_t t = first_element(); t < m.outer * m.inner; t += element_step()) {
    const int64_t o = t / m.inner, c = t % m.inner;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = (o * n + i) * m.inner + c;
      x[(o * m.size + ids[at]) * m.inner + c] += y[at];
    }
  }
}

}  // namespace

void take_rows(Middle m, const int64_t* ids, int64_t n, const float* x, float* y) {
  const int64_t all = m.outer * n * m.inner;
  if (all == 0) return;
  take<<<grid_for(all), kThreads, 0, stream()>>>(m, ids, n, x, y);
  check_launch("lookup");
}

void add_rows(Middle m, const int64_t* ids, int64_t n, const float* y, float* x) {
  if (m.outer * n * m.inner == 0) return;
  const Scratch<unsigned long long> first(static_cast<size_t>(m.size));
  check(cudaMemsetAsync(first.data(), 0x7f, static_cast<size_t>(m.size) * 8, stream()), "lookup");
  find_first<<<grid_for(n), kThreads, 0, stream()>>>(ids, n, first.data());
  check_launch("lookup, backward");
  const int64_t warps = m.outer * m.size * ((m.inner + 127) / 128);
  add<<<grid_for(warps * 32), kThreads, 0, stream()>>>(m, ids, n, y, x, first.data());
  check_launch("lookup, backward");
}

void take_along(Middle m, const int64_t* ids, int64_t n, const float* x, float* y) {
  const int64_t all = m.outer * n * m.inner;
  if (all == 0) return;
  take_each<<<grid_for(all), kThreads, 0, stream()>>>(m, ids, n, x, y);
  check_launch("gather");
}

void add_along(Middle m, const int64_t* ids, int64_t n, const float* y, float* x) {
  if (m.outer * n * m.inner == 0) return;
  add_each<<<grid_for(m.outer * m.inner), kThreads, 0, stream()>>>(m, ids, n, y, x);
  check_launch("scatter");
}

}  // namespace fovea::cuda
