#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "cuda/launch.cuh"
#include "cuda/loops.cuh"
#include "cuda/table.h"

// Copies by strides, fills and conversions: one thread an element.
namespace fovea::cuda {
namespace {

template <class T>
__global__ __launch_bounds__(kThreads) void copy_elements(const T* from, T* to,
                                                          const __grid_constant__ Walk<2> walk) {
  for (int64_t i = first_element(); i < walk.numel; i += element_step()) {
    int64_t at[2];
    walk.at(i, at);
    to[at[1]] = from[at[0]];
  }
}

__global__ __launch_bounds__(kThreads) void add_elements(const float* from, float* to,
                                                         const __grid_constant__ Walk<2> walk) {
  wait_for_earlier();
  for (int64_t i = first_element(); i < walk.numel; i += element_step()) {
    int64_t at[2];
    walk.at(i, at);
    to[at[1]] += from[at[0]];
  }
}

__global__ __launch_bounds__(kThreads) void fill_elements(int64_t n, float value, float* y) {
  for (int64_t i = first_element(); i < n; i += element_step()) y[i] = value;
}

__global__ __launch_bounds__(kThreads) void floats_of(int64_t n, const uint8_t* x, float* y) {
  for (int64_t i = first_element(); i < n; i += element_step()) y[i] = x[i];
}

__global__ __launch_bounds__(kThreads) void truths_of(int64_t n, const float* x, uint8_t* y) {
  for (int64_t i = first_element(); i < n; i += element_step()) y[i] = x[i] != 0.0f;
}

__global__ __launch_bounds__(kThreads) void find_nonfinite(const float* x, int* found,
                                                           const __grid_constant__ Walk<1> walk) {
  for (int64_t i = first_element(); i < walk.numel; i += element_step()) {
    int64_t at[1];
    walk.at(i, at);
    if (!isfinite(x[at[0]])) *found = 1;  // all writers write the same
  }
}

// As many copies as a launch has arguments for.
struct Copies {
  static constexpr size_t kMost = 64;
  Copy each[kMost];
};
__global__ __launch_bounds__(kThreads) void copy_several(const __grid_constant__ Copies all) {
  wait_for_earlier();
  const Copy& c = all.each[blockIdx.y];
  const auto whole = [&](auto kind) {
    using T = decltype(kind);
    const auto* const from = static_cast<const T*>(c.from);
    auto* const to = static_cast<T*>(c.to);
    const int64_t n = c.bytes / static_cast<int64_t>(sizeof(T));
    for (int64_t i = first_element(); i < n; i += element_step()) to[i] = from[i];
  };
  const auto at = reinterpret_cast<uintptr_t>(c.from) | reinterpret_cast<uintptr_t>(c.to) |
                  static_cast<uintptr_t>(c.bytes);
  if (at % sizeof(uint4) == 0) return whole(uint4{});
  whole(uint8_t{});
}

template <class T>
void copy_as(std::span<const int64_t> shape, Bytes from, Bytes to) {
  const int64_t* strides[] = {from.strides, to.strides};
  const Walk<2> walk(shape, strides);
  if (walk.numel == 0) return;
  const auto* source = static_cast<const T*>(from.data);
  auto* target = static_cast<T*>(to.data);
  if (walk.rank == 1 && walk.strides[0][0] == 1 && walk.strides[1][0] == 1) {
    check(cudaMemcpyAsync(target, source, static_cast<size_t>(walk.numel) * sizeof(T),
                          cudaMemcpyDeviceToDevice, stream()),
          "copy");
    return;
  }
  copy_elements<<<grid_for(walk.numel), kThreads, 0, stream()>>>(source, target, walk);
  check_launch("strided copy");
}

// Rows whose elements lie side by side, 16 bytes at a time; false where they are not like that.
bool copy_by_16(std::span<const int64_t> shape, int64_t element, Bytes from, Bytes to) {
  const int64_t many = 16 / element, last = static_cast<int64_t>(shape.size()) - 1;
  const auto whole = [&](const Bytes& x) {
    if (reinterpret_cast<uintptr_t>(x.data) % 16 != 0 || x.strides[last] != 1) return false;
    for (int64_t d = 0; d < last; ++d) {
      if (x.strides[d] % many != 0) return false;
    }
    return true;
  };
  if (last < 1 || last >= kernels::kMaxRank || shape[last] % many != 0 || shape[last] == 0 ||
      !whole(from) || !whole(to)) {
    return false;
  }
  int64_t sizes[kernels::kMaxRank], steps[2][kernels::kMaxRank];
  for (int64_t d = 0; d <= last; ++d) {
    sizes[d] = d == last ? shape[d] / many : shape[d];
    steps[0][d] = d == last ? 1 : from.strides[d] / many;
    steps[1][d] = d == last ? 1 : to.strides[d] / many;
  }
  copy_as<uint4>({sizes, shape.size()}, {from.data, steps[0]}, {to.data, steps[1]});
  return true;
}

// Dimensions whose places are all different, the largest strides first to go: by dimension.
std::vector<bool> apart(std::span<const int64_t> shape, const int64_t* strides) {
  std::vector<std::pair<int64_t, size_t>> order;
  std::vector<bool> alone(shape.size(), true);
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] > 1) order.emplace_back(std::abs(strides[d]), d);
  }
  std::sort(order.begin(), order.end());
  int64_t reach = 0;
  for (const auto& [stride, d] : order) {
    alone[d] = stride > reach;
    if (alone[d]) reach += stride * (shape[d] - 1);
  }
  return alone;
}

}  // namespace

void clear(void* to, size_t bytes) {
  if (bytes > 0) check(cudaMemsetAsync(to, 0, bytes, stream()), "clear");
}

void fill(int64_t n, float value, float* y) {
  if (n == 0) return;
  fill_elements<<<grid_for(n), kThreads, 0, stream()>>>(n, value, y);
  check_launch("fill");
}

void strided_copy(std::span<const int64_t> shape, int64_t element, Bytes from, Bytes to) {
  if (copy_by_16(shape, element, from, to)) return;
  if (element == 1) return copy_as<uint8_t>(shape, from, to);
  if (element == 2) return copy_as<uint16_t>(shape, from, to);
  if (element == 4) return copy_as<uint32_t>(shape, from, to);
  copy_as<uint64_t>(shape, from, to);
}

// Places that repeat are added to one launch after another, in row-major order: the dimensions
// along which they are different run in parallel.
void strided_add(std::span<const int64_t> shape, Bytes from, Bytes to) {
  const std::vector<bool> alone = apart(shape, to.strides);
  std::vector<int64_t> sizes(shape.begin(), shape.end());
  std::vector<size_t> turns;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return;
    if (alone[d]) continue;
    turns.push_back(d);
    sizes[d] = 1;
  }
  const int64_t* strides[] = {from.strides, to.strides};
  const Walk<2> walk(sizes, strides);
  std::vector<int64_t> at(turns.size(), 0);
  while (true) {
    const auto* source = static_cast<const float*>(from.data);
    auto* target = static_cast<float*>(to.data);
    for (size_t t = 0; t < turns.size(); ++t) {
      source += at[t] * from.strides[turns[t]];
      target += at[t] * to.strides[turns[t]];
    }
    launch_early(add_elements, {grid_for(walk.numel), kThreads}, "strided add", source, target,
                 walk);
    size_t t = turns.size();
    while (t > 0 && ++at[t - 1] == shape[turns[t - 1]]) at[--t] = 0;
    if (t == 0) return;
  }
}

void copy_all(std::span<const Copy> copies) {
  for (size_t first = 0; first < copies.size(); first += Copies::kMost) {
    const size_t n = std::min(copies.size() - first, Copies::kMost);
    Copies some;
    int64_t most = 0;
    for (size_t i = 0; i < n; ++i) {
      some.each[i] = copies[first + i];
      most = std::max(most, some.each[i].bytes);
    }
    if (most == 0) continue;
    const int64_t wanted = (most + 16 * kThreads - 1) / (16 * kThreads);
    const int64_t room = int64_t{16} * limits().processors / static_cast<int64_t>(n) + 1;
    const dim3 grid(static_cast<unsigned>(std::min(wanted, room)), static_cast<unsigned>(n));
    launch_early(copy_several, {grid, kThreads}, "copies", some);
  }
}

void to_floats(int64_t n, const uint8_t* x, float* y) {
  if (n == 0) return;
  floats_of<<<grid_for(n), kThreads, 0, stream()>>>(n, x, y);
  check_launch("conversion");
}

void truth_of(int64_t n, const float* x, uint8_t* y) {
  if (n == 0) return;
  truths_of<<<grid_for(n), kThreads, 0, stream()>>>(n, x, y);
  check_launch("conversion");
}

bool all_finite(const View<const float>& v, int64_t B, int64_t H, int64_t R, int64_t C) {
  const int64_t shape[] = {B, H, R, C}, steps[] = {v.b, v.h, v.r, v.c};
  const int64_t* strides[] = {steps};
  const Walk<1> walk(shape, strides);
  if (walk.numel == 0) return true;
  const Scratch<int> found(1);
  clear(found.data(), sizeof(int));
  find_nonfinite<<<grid_for(walk.numel), kThreads, 0, stream()>>>(v.data, found.data(), walk);
  check_launch("looking for what is not finite");
  int any = 0;
  download(&any, found.data(), sizeof any);
  return any == 0;
}

}  // namespace fovea::cuda
