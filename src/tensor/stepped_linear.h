#pragma once

#include "tensor/linear.h"
#include "tensor/tape.h"

namespace fovea {

// y_t = x_t·Wᵀ + b (+ addend_t) at many steps t of one pass. A step's backward gives dx_t alone;
// dW = Σ_t dy_tᵀ x_t is one product over all steps, taken when the last of them is through.
class LinearSteps {
 public:
  explicit LinearSteps(LinearWeights weights) : weights_(std::move(weights)) {}
  Tensor operator()(const Tensor& x, const Tensor& addend);  // [B,I] → [B,O]

 private:
  // What the steps keep for the one product, last step first.
  struct Rows {
    std::vector<Tensor> x, dy;
  };
  Tensor times_weight(const Tensor& x, const Tensor& addend);
  const Deferred<Rows>& learned();

  LinearWeights weights_;
  Deferred<Rows> learned_;  // W and b; from the first step recorded on
  // Wᵀ from the second step of many rows on, until W changes.
  Tensor weight_t_;
  uint64_t version_ = 0;
  bool many_before_ = false;
};

}  // namespace fovea
