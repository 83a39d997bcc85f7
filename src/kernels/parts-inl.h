// Sums of dW over parts of the places, which are added in their order.
#if defined(FOVEA_PARTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_PARTS_INL_H_
#undef FOVEA_PARTS_INL_H_
#else
#define FOVEA_PARTS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "core/allocator.h"
#include "core/threads.h"
#include "kernels/gemm-tile-inl.h"
#include "kernels/planes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace {

// [part][group][k][output], rows of whole vectors.
struct PartialWeights {
  PartialWeights(int64_t parts_, int64_t groups, int64_t k, int64_t outputs)
      : parts(parts_),
        G(groups),
        K(k),
        O(outputs),
        row((O + kLanes - 1) / kLanes * kLanes),
        numbers(parts * G * K * row) {}
  float* at(int64_t part, int64_t g, int64_t k) const {
    return numbers.data() + ((part * G + g) * K + k) * row;
  }
  int64_t parts, G, K, O, row;
  Buffer<float> numbers;
};

// dw[g][output][k] = Σ_part partial[part][g][k][output]; whether all of it is finite.
bool AddParts(const PartialWeights& p, float* dw) {
  const F d;
  const int64_t squares = (p.K + kSquare - 1) / kSquare;
  std::atomic<bool> finite{true};
  parallel_for(p.G * squares, p.parts * kSquare * p.row, [&](int64_t task) HWY_ATTR {
    const int64_t g = task / squares, k = task % squares * kSquare;
    const int64_t rows = std::min(kSquare, p.K - k);
    float* first = p.at(0, g, k);
    Vec zeros = hn::Zero(d);  // 0·sum: NaN where a number is not finite
    for (int64_t i = 0; i < rows * p.row; i += kLanes) {
      Vec sum = hn::Load(d, first + i);
      for (int64_t part = 1; part < p.parts; ++part) {
        sum = hn::Add(sum, hn::Load(d, p.at(part, g, k) + i));
      }
      hn::Store(sum, d, first + i);
      zeros = hn::MulAdd(sum, hn::Zero(d), zeros);
    }
    if (!hn::AllTrue(d, hn::Eq(zeros, zeros))) finite = false;
    Transposed(first, p.row, {rows, p.O}, dw + g * p.O * p.K + k, p.K);
  });
  return finite;
}

}  // namespace
}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_PARTS_INL_H_
