#pragma once

#include <cstdint>
#include <span>

#include "kernels/strided.h"

namespace fovea::kernels {

struct Bytes {
  void* data;
  const int64_t* strides;  // in elements
};

// to[i] = from[i] over the shape; elements of 1, 2, 4 or 8 bytes.
void strided_copy(std::span<const int64_t> shape, int64_t element, Bytes from, Bytes to);

// One of several copies of bytes that lie next to each other.
struct Copy {
  const void* from;
  void* to;
  int64_t bytes;
};

// to[i] += from[i] over the shape, in row-major order: places may repeat.
void strided_add(std::span<const int64_t> shape, Bytes from, Bytes to);

}  // namespace fovea::kernels
