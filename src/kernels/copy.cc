#include "kernels/copy.h"

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "core/threads.h"

namespace fovea::kernels {
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

// For what Highway takes for granted of this processor, which on Arm is more than the compiler
// does.
HWY_BEFORE_NAMESPACE();

void transpose_4x4(const uint32_t* from, int64_t row, uint32_t* to, int64_t to_row) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t i = 0; i < 16; ++i) to[i % 4 * to_row + i / 4] = from[i / 4 * row + i % 4];
#else
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::FixedTag<uint32_t, 4> d;
  const hn::FixedTag<uint64_t, 2> pairs;
  const auto r0 = hn::LoadU(d, from), r1 = hn::LoadU(d, from + row);
  const auto r2 = hn::LoadU(d, from + 2 * row), r3 = hn::LoadU(d, from + 3 * row);
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d, to + to_row);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d, to + 2 * to_row);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d, to + 3 * to_row);
#endif
}

void transpose_4x4(const uint16_t* from, int64_t row, uint16_t* to, int64_t to_row) {
  for (int64_t j = 0; j < 4; ++j) {
    for (int64_t i = 0; i < 4; ++i) to[j * to_row + i] = from[i * row + j];
  }
}

template <class T>
struct Transposing {
  int64_t rows, cols;  // of the source
  const T* from;
  int64_t from_row;
  T* to;
  int64_t to_row;
};

// Rows begin … end − 1, a cache line of each at a time. Reading along rows lets the machine fetch
// ahead: 2.6 times the speed of reading down columns.
template <class T>
void transpose_rows(const Transposing<T>& t, int64_t begin, int64_t end) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t line = 0; line < t.cols; line += kLine) {
    const int64_t last = std::min(t.cols, line + kLine), fours = line + (last - line) / 4 * 4;
    int64_t i = begin;
    for (; i + 4 <= end; i += 4) {
      for (int64_t j = line; j < fours; j += 4) {
        transpose_4x4(t.from + i * t.from_row + j, t.from_row, t.to + j * t.to_row + i, t.to_row);
      }
    }
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t j = r < i ? fours : line; j < last; ++j) {
        t.to[j * t.to_row + r] = t.from[r * t.from_row + j];
      }
    }
  }
}

HWY_AFTER_NAMESPACE();

template <class T>
void transpose(const Transposing<T>& t) {
  constexpr int64_t kRows = 64;
  parallel_for((t.rows + kRows - 1) / kRows, kRows * t.cols, [&](int64_t block) {
    transpose_rows(t, block * kRows, std::min(t.rows, (block + 1) * kRows));
  });
}

bool transposes(const StridedLoop& loop) {
  return loop.rank == 2 && loop.strides[0][0] == 1 && loop.strides[1][1] == 1;
}

}  // namespace

void strided_copy(std::span<const int64_t> shape, int64_t element, Bytes from, Bytes to) {
  const StridedLoop loop(shape, {from.strides, to.strides});
  if (element == 4 && transposes(loop)) {
    transpose<uint32_t>({loop.sizes[1], loop.sizes[0], static_cast<const uint32_t*>(from.data),
                         loop.strides[0][1], static_cast<uint32_t*>(to.data), loop.strides[1][0]});
  } else if (element == 4) {
    copy_as(loop, static_cast<const uint32_t*>(from.data), static_cast<uint32_t*>(to.data));
  } else if (element == 2 && transposes(loop)) {
    transpose<uint16_t>({loop.sizes[1], loop.sizes[0], static_cast<const uint16_t*>(from.data),
                         loop.strides[0][1], static_cast<uint16_t*>(to.data), loop.strides[1][0]});
  } else if (element == 2) {
    copy_as(loop, static_cast<const uint16_t*>(from.data), static_cast<uint16_t*>(to.data));
  } else if (element == 8) {
    copy_as(loop, static_cast<const uint64_t*>(from.data), static_cast<uint64_t*>(to.data));
  } else {
    copy_as(loop, static_cast<const uint8_t*>(from.data), static_cast<uint8_t*>(to.data));
  }
}

void strided_add(std::span<const int64_t> shape, Bytes from, Bytes to) {
  const StridedLoop loop(shape, {from.strides, to.strides});
  const int64_t a = loop.inner_stride(0), b = loop.inner_stride(1);
  loop.for_runs(0, loop.numel, [&](const int64_t* at, int64_t n) {
    const float* x = static_cast<const float*>(from.data) + at[0];
    float* y = static_cast<float*>(to.data) + at[1];
    for (int64_t i = 0; i < n; ++i) y[i * b] += x[i * a];
  });
}

}  // namespace fovea::kernels
