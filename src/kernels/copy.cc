#include "kernels/copy.h"

#include <cstring>

#include "core/threads.h"

namespace fovea {
namespace {

constexpr int64_t kChunk = 1 << 15;

template <class T>
void copy_run(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t n) {
  if (from_stride == 1 && to_stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
  } else if (from_stride == 0 && to_stride == 1) {
    std::fill_n(to, n, *from);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i * to_stride] = from[i * from_stride];
  }
}

template <class T>
void copy_as(const StridedLoop& loop, const T* from, T* to) {
  parallel_for((loop.numel + kChunk - 1) / kChunk, [&](int64_t chunk) {
    loop.for_runs(chunk * kChunk, std::min(loop.numel, (chunk + 1) * kChunk),
                  [&](const int64_t* at, int64_t n) {
                    copy_run(from + at[0], loop.inner_stride(0), to + at[1], loop.inner_stride(1),
                             n);
                  });
  });
}

}  // namespace

void strided_copy(std::span<const int64_t> shape, int64_t element, Bytes from, Bytes to) {
  const StridedLoop loop(shape, {from.strides, to.strides});
  if (element == 4) {
    copy_as(loop, static_cast<const uint32_t*>(from.data), static_cast<uint32_t*>(to.data));
  } else if (element == 8) {
    copy_as(loop, static_cast<const uint64_t*>(from.data), static_cast<uint64_t*>(to.data));
  } else {
    copy_as(loop, static_cast<const uint8_t*>(from.data), static_cast<uint8_t*>(to.data));
  }
}

}  // namespace fovea
