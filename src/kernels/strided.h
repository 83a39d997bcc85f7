#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace fovea::kernels {

constexpr int kMaxRank = 16;
constexpr int kMaxOperands = 4;

// Walks several strided arrays of one shape together, in row-major order, as few runs as the
// strides permit: neighbouring dimensions that every operand lays out as one are merged, and
// dimensions of size 1 vanish.
struct StridedLoop {
  int rank = 0;
  int operands = 0;
  int64_t numel = 1;
  std::array<int64_t, kMaxRank> sizes;
  std::array<std::array<int64_t, kMaxRank>, kMaxOperands> strides;

  StridedLoop(std::span<const int64_t> shape, std::initializer_list<const int64_t*> by_operand)
      : StridedLoop(shape, std::span(by_operand.begin(), by_operand.size())) {}

  StridedLoop(std::span<const int64_t> shape, std::span<const int64_t* const> by_operand)
      : operands(static_cast<int>(by_operand.size())) {
    if (std::find(shape.begin(), shape.end(), 0) != shape.end()) {  // nothing to walk
      numel = sizes[0] = 0;
      rank = 1;
      for (int o = 0; o < operands; ++o) strides[o][0] = 1;
      return;
    }
    for (size_t d = 0; d < shape.size(); ++d) {
      numel *= shape[d];
      if (shape[d] == 1) continue;
      if (rank > 0 && merges(shape[d], d, by_operand)) {
        sizes[rank - 1] *= shape[d];
      } else {
        sizes[rank++] = shape[d];
      }
      for (int o = 0; o < operands; ++o) strides[o][rank - 1] = by_operand[o][d];
    }
    if (rank == 0) {
      rank = 1;
      sizes[0] = 1;
      for (int o = 0; o < operands; ++o) strides[o][0] = 1;
    }
  }

  int64_t inner_stride(int operand) const { return strides[operand][rank - 1]; }

  // Calls run(offsets, n) for consecutive runs along the last dimension that cover the elements
  // begin … end − 1; offsets[o] is where operand o's run starts.
  template <class Run>
  void for_runs(int64_t begin, int64_t end, const Run& run) const {
    if (begin >= end) return;
    std::array<int64_t, kMaxRank> at;
    std::array<int64_t, kMaxOperands> offset{};
    int64_t rest = begin;
    for (int d = rank - 1; d >= 0; --d) {
      at[d] = rest % sizes[d];
      rest /= sizes[d];
      for (int o = 0; o < operands; ++o) offset[o] += at[d] * strides[o][d];
    }
    const int last = rank - 1;
    while (true) {
      const int64_t n = std::min(end - begin, sizes[last] - at[last]);
      run(offset.data(), n);
      begin += n;
      if (begin >= end) return;
      for (int o = 0; o < operands; ++o) offset[o] -= at[last] * strides[o][last];
      at[last] = 0;
      for (int d = last - 1; d >= 0; --d) {
        for (int o = 0; o < operands; ++o) offset[o] += strides[o][d];
        if (++at[d] < sizes[d]) break;
        for (int o = 0; o < operands; ++o) offset[o] -= at[d] * strides[o][d];
        at[d] = 0;
      }
    }
  }

 private:
  bool merges(int64_t size, size_t d, std::span<const int64_t* const> by_operand) const {
    for (int o = 0; o < operands; ++o) {
      if (strides[o][rank - 1] != by_operand[o][d] * size) return false;
    }
    return true;
  }
};

}  // namespace fovea::kernels
