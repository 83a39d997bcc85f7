#pragma once

#include "tensor/linear.h"
#include "tensor/tape.h"

namespace fovea {

// A gru's steps of one pass, each with its products in one call, where the device has that
// (kernels/table.h):
//   x = gates + fed·W_fedᵀ, u = h·Wᵀ + b, h' = gru(x, u, h)
// Weights' gradients are taken once for all steps.
class GruSteps {
 public:
  GruSteps(LinearWeights state, Tensor w_fed)
      : state_(std::move(state)), w_fed_(std::move(w_fed)) {}
  // gates [B,3·H], fed [B,I] or undefined, h [B,H], active bool [B] or undefined.
  Tensor operator()(const Tensor& gates, const Tensor& fed, const Tensor& h, const Tensor& active);

 private:
  // What the steps keep for the weights' products, last step first.
  struct Rows {
    std::vector<Tensor> fed, dx, h, du;
  };
  void check(const Tensor& gates, const Tensor& fed, const Tensor& h, const Tensor& active) const;
  const Deferred<Rows>& learned();

  LinearWeights state_;
  Tensor w_fed_;            // [3·H,I] or undefined
  Deferred<Rows> learned_;  // W_fed, W and b; from the first step recorded on
};

// Whether the device of `t` has steps of this kind.
bool has_gru_steps(const Tensor& t);

}  // namespace fovea
