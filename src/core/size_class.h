#pragma once

#include <bit>
#include <cstddef>

// The sizes in which allocators keep blocks, the host's and the GPU's.
namespace fovea {

inline constexpr size_t kBlockAlign = 64;
inline constexpr int kSizeSteps = 8;  // classes per power of two: ≤ 12.5 % unused
inline constexpr int kSizeClasses = 64 * kSizeSteps;

struct SizeClass {
  int index;
  size_t bytes;
};

// Sizes (8+s)·2^e ≥ 64 for s in 0 … 7; below 512 bytes, multiples of 64.
inline SizeClass size_class(size_t bytes) {
  if (bytes <= 8 * kBlockAlign) {
    const size_t units = bytes == 0 ? 1 : (bytes + kBlockAlign - 1) / kBlockAlign;
    return {static_cast<int>(units) - 1, units * kBlockAlign};
  }
  const int e = std::bit_width(bytes - 1) - 4;  // (bytes−1) >> e is in 8 … 15
  const size_t s = ((bytes - 1) >> e) + 1;      // 9 … 16
  return {(e - 5) * kSizeSteps + static_cast<int>(s) - 1, s << e};
}

}  // namespace fovea
