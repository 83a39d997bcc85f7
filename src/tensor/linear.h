#pragma once

#include "fovea/ops.h"
#include "fovea/tensor.h"

// y = x·Wᵀ + b + addend and its gradients, off the tape; x [..,I], W [O,I], b [O], addend and y
// [..,O]. b and addend may be undefined. W may be kept in fewer bits (bf16, f16, i8).
namespace fovea {

struct LinearWeights {
  Tensor weight, bias;
};
Tensor product(const Tensor& x, const LinearWeights&, const Tensor& addend = {});
Tensor d_product_x(const Tensor& dy, const Tensor& weight);  // dy·W
Tensor d_product_weight(const Tensor& dy, const Tensor& x);  // dyᵀ·x
Tensor d_product_bias(const Tensor& dy);                     // Σ dy

// Off the tape, [rows, last dimension].
Tensor as_rows(const Tensor& x);

// Wᵀ as [I,O] whose rows lie densely. Products with it are a quarter faster for rows from 16 on,
// which pays for the copy from about 500 rows on, or where many steps share it.
Tensor dense_transpose(const Tensor& weight);
// product(), with it.
Tensor product_with_transpose(const Tensor& x, const Tensor& weight_t, const Tensor& bias,
                              const Tensor& addend);

// linear() of bf16, where a device computes in it.
Tensor bf16_linear(const Tensor& x, const Tensor& weight, const Tensor& bias);

// cross_entropy(linear(x, W, b), targets, how). Of bf16 the logits lie as products want them, which
// is what takes the time where there are many classes.
Tensor linear_cross_entropy(const Tensor& x, const LinearWeights&, const Tensor& targets,
                            const CrossEntropy& how);

// Throws unless the weights are whole and x [..,I] fits them.
void expect_linear(const char* call, const Tensor& x, const LinearWeights&);

}  // namespace fovea
