#pragma once

#include "fovea/nn.h"

// y = x·Wᵀ + b + addend and its gradients, off the tape; x [..,I], W [O,I], b [O], addend and y
// [..,O]. b and addend may be undefined.
namespace fovea::nn {

Tensor product(const Tensor& x, const Linear&, const Tensor& addend = {});
Tensor d_product_x(const Tensor& dy, const Tensor& weight);  // dy·W
Tensor d_product_weight(const Tensor& dy, const Tensor& x);  // dyᵀ·x
Tensor d_product_bias(const Tensor& dy);                     // Σ dy

// Wᵀ as [I,O] in memory. Products with it are a quarter faster for rows from 16 on, which pays for
// the copy from about 500 rows on, or where many steps share it.
Tensor turned(const Tensor& weight);
// The same as above, with it.
Tensor product(const Tensor& x, const Tensor& turned, const Tensor& bias, const Tensor& addend);

// Each of y's rows of n numbers becomes addend's row plus the bias; null: 0.
void fill_rows(float* y, int64_t rows, int64_t n, const float* bias, const float* addend);

// Throws unless the layer is whole and x [..,I] fits it.
void expect_input(const char* call, const Tensor& x, const Linear&);

}  // namespace fovea::nn
