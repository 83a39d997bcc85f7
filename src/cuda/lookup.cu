#include <cstddef>
#include <cub/device/device_radix_sort.cuh>

#include "cuda/loops.cuh"
#include "cuda/table.h"

// Reading by id is one thread an element. Adding sums the places of an id in an order that depends
// on the ids alone: the same bits twice, and no atomics.
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

// Adding by id: places are sorted by their ids, in order where those are equal, and cut into pieces
// of kPiece. A block sums a piece's runs of equal ids; of a run that goes over pieces it leaves its
// part of the sum, and a second launch joins those.
constexpr int kPiece = 32;

struct Sorted {
  const int* ids;
  const int* places;
  int64_t n, pieces;
  float*
      parts;  // [outer, pieces, 2, inner]: what the first run of a piece and its last are part of
  __device__ int64_t end(int64_t piece) const { return min(n, (piece + 1) * kPiece); }
  __device__ int id(int64_t at) const { return at < 0 || at >= n ? -1 : ids[at]; }
};

__global__ __launch_bounds__(kThreads) void number_places(const int64_t* ids, int64_t n, int* keys,
                                                          int* places) {
  for (int64_t i = first_element(); i < n; i += element_step()) {
    keys[i] = static_cast<int>(ids[i]), places[i] = static_cast<int>(i);
  }
}

__global__ __launch_bounds__(kThreads) void add_pieces(Middle m, Sorted s, const float* y,
                                                       float* x) {
  const int64_t piece = blockIdx.x, begin = piece * kPiece, end = s.end(piece);
  for (int64_t t = blockIdx.y * kThreads + threadIdx.x; t < m.outer * m.inner;
       t += gridDim.y * kThreads) {
    const int64_t o = t / m.inner, c = t % m.inner;
    const float* const from = y + o * s.n * m.inner;
    float* const part = s.parts + (o * s.pieces + piece) * 2 * m.inner;
    for (int64_t first = begin; first < end;) {
      const int id = s.ids[first];
      float sum = 0.0f;
      int64_t i = first;
      for (; i < end && s.ids[i] == id; ++i) sum += from[s.places[i] * m.inner + c];
      const bool goes_on = s.id(i) == id, began = first == begin && s.id(first - 1) == id;
      if (began) {
        part[c] = sum;
      } else if (goes_on) {
        part[m.inner + c] = sum;
      } else {
        x[(o * m.size + id) * m.inner + c] += sum;
      }
      first = i;
    }
  }
}

// Runs that begin in a piece and go on behind it.
__global__ __launch_bounds__(kThreads) void join_pieces(Middle m, Sorted s, float* x) {
  const int64_t piece = blockIdx.x, last = s.end(piece) - 1;
  const int id = s.ids[last];
  if (s.id(last + 1) != id) return;
  const bool whole = s.ids[piece * kPiece] == id;
  if (whole && s.id(piece * kPiece - 1) == id) return;  // it began before
  for (int64_t t = blockIdx.y * kThreads + threadIdx.x; t < m.outer * m.inner;
       t += gridDim.y * kThreads) {
    const int64_t o = t / m.inner, c = t % m.inner;
    const float* const parts = s.parts + o * s.pieces * 2 * m.inner;
    float sum = parts[(piece * 2 + 1) * m.inner + c];
    for (int64_t p = piece + 1; p < s.pieces && s.ids[p * kPiece] == id; ++p) {
      sum += parts[p * 2 * m.inner + c];
    }
    x[(o * m.size + id) * m.inner + c] += sum;
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
  const Scratch<int> keys(static_cast<size_t>(2 * n)), places(static_cast<size_t>(2 * n));
  number_places<<<grid_for(n), kThreads, 0, stream()>>>(ids, n, keys.data(), places.data());
  check_launch("lookup, backward");
  cub::DoubleBuffer<int> by(keys.data(), keys.data() + n);
  cub::DoubleBuffer<int> moved(places.data(), places.data() + n);
  const int bits = 64 - __builtin_clzll(static_cast<unsigned long long>(m.size));
  size_t bytes = 0;
  const auto sort = [&](void* room) {
    check(cub::DeviceRadixSort::SortPairs(room, bytes, by, moved, static_cast<int>(n), 0, bits,
                                          stream()),
          "lookup, backward");
  };
  sort(nullptr);
  const Scratch<std::byte> room(bytes);
  sort(room.data());
  Sorted s{by.Current(), moved.Current(), n, (n + kPiece - 1) / kPiece, nullptr};
  const Scratch<float> parts(static_cast<size_t>(m.outer * s.pieces * 2 * m.inner));
  s.parts = parts.data();
  const int64_t across = (m.outer * m.inner + kThreads - 1) / kThreads;
  const dim3 grid(static_cast<unsigned>(s.pieces),
                  static_cast<unsigned>(std::min<int64_t>(across, 64)));
  add_pieces<<<grid, kThreads, 0, stream()>>>(m, s, y, x);
  check_launch("lookup, backward");
  join_pieces<<<grid, kThreads, 0, stream()>>>(m, s, x);
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
