#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/allocator.h"
#include "kernels/numbers.h"

// The likeliest row of softmax(W·x + b) for one x, where W is large. A copy of W in 8 bits, a
// quarter of the memory, bounds every logit; rows that may be the best are computed from W itself.
//   w_v ≈ ŵ_v = scale_v·q_v,  x ≈ x̂ in 16 bits,  and the integer product ŵ_v·x̂ is exact, so
//   |ŵ_v·x̂ − w_v·x| ≤ ε_v = ‖w_v − ŵ_v‖·‖x‖ + ‖ŵ_v‖·‖x − x̂‖ + rounding
namespace fovea::kernels {

struct Matrix {
  const void* data = nullptr;
  int64_t rows = 0, cols = 0;
  int64_t row = 0;            // from one row to the next
  Number type = Number::f32;  // or bf16 or f16; i8 is as small as the copy
};

constexpr int64_t kScreenPanel = 16;  // rows whose columns lie together, two by two

struct Screen {
  int64_t rows = 0, cols = 0, pairs = 0;
  Buffer<int8_t> q;  // [panels][pairs][kScreenPanel][2], zeros where there is no row or column
  // By row, padded to whole panels, there with a bias of −∞.
  Buffer<float> scale;
  Buffer<float> residual;  // ‖w − ŵ‖, and what rounding adds to it
  Buffer<float> norm;      // ‖ŵ‖
  Buffer<float> bias;
  int64_t padded() const { return (rows + kScreenPanel - 1) / kScreenPanel * kScreenPanel; }
};
// `bias` [rows], or null. None where W has a number that is not finite.
std::optional<Screen> make_screen(const Matrix& w, const float* bias);

struct Choice {
  int64_t row = 0;
  float logit = 0.0f;
  double log_sum = 0.0;  // log Σ_v e^{logit_v}
  int64_t computed = 0;  // rows taken from W itself
};

// The row with the largest logit as W itself gives it, of equals the first; rows in `never`, in
// rising order, are not chosen but count in the sum. W is the one the screen was made of.
//
// The sum takes exact logits for every row that is chosen from, and for those with the largest p·ε
// until the others have Σp²ε²/cols ≤ 1e−8. Errors of these are those of roundings, ε/√cols in the
// mean: 1e−4 in log_sum by the root mean square, and below 1e−3 in all that was seen.
//
// None where x, the bias or the logits are not finite, or no row may be chosen: take the product.
// Bit-equal at any thread count.
std::optional<Choice> choose(const Screen&, const Matrix& w, const float* x,
                             std::span<const int64_t> never);

}  // namespace fovea::kernels
