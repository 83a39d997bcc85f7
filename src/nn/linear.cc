#include "fovea/nn.h"
#include "fovea/ops.h"
#include "nn/product.h"
#include "tensor/tape.h"

namespace fovea::nn {

// y = x·Wᵀ + b;  dx = dy·W, dW = dyᵀ·x, db = Σ dy
Tensor Linear::operator()(const Tensor& x) const {
  expect_input("linear", x, *this);
  const Tensor y = product(x, *this);
  const std::vector<Tensor> inputs{x, weight, bias};
  if (!needs_grad(inputs)) return y;
  const bool want_dx = x.requires_grad(), want_dw = weight.requires_grad();
  const bool want_db = bias.requires_grad();
  return record("linear", inputs, y,
                [kx = want_dw ? Saved(x) : Saved(), kw = want_dx ? Saved(weight) : Saved(), want_dx,
                 want_dw, want_db](const Tensor& dy) {
                  Grads grads(3);
                  if (want_dx) grads[0] = d_product_x(dy, kw.get("linear"));
                  if (want_dw) grads[1] = d_product_weight(dy, kx.get("linear"));
                  if (want_db) grads[2] = d_product_bias(dy);
                  return grads;
                });
}

Linear linear(Weights& weights, const std::string& name, int64_t in, int64_t out, WithBias bias) {
  Linear layer;
  layer.weight = weights.add(name + ".weight", {out, in}, Init::uniform);
  if (bias == WithBias::yes) layer.bias = weights.add(name + ".bias", {out}, Init::zeros);
  return layer;
}

Tensor Embedding::operator()(const Tensor& ids) const { return fovea::embedding(table, ids); }

Embedding embedding(Weights& weights, const std::string& name, int64_t vocabulary, int64_t width) {
  return {weights.add(name + ".weight", {vocabulary, width}, Init::normal)};
}

}  // namespace fovea::nn
