#include <utility>

#include "fovea/nn.h"
#include "nn/per_pass.h"
#include "nn/product.h"
#include "tensor/tape.h"

namespace fovea::nn {
namespace {

// What the steps leave for the one product, last step first.
struct Rows {
  std::vector<Tensor> x, dy;
};

// The parts' rows below each other.
Tensor pile(const std::vector<Tensor>& parts) {
  if (parts.size() == 1) return parts[0];
  int64_t rows = 0;
  for (const Tensor& t : parts) rows += t.size(0);
  const Tensor all = Tensor::empty({rows, parts[0].size(1)});
  int64_t at = 0;
  for (const Tensor& t : parts) {
    all.slice(0, at, at + t.size(0)).copy_(t);
    at += t.size(0);
  }
  return all;
}

}  // namespace

struct SteppedLinear::Steps {
  Linear layer;
  std::shared_ptr<PerPass<Rows>> rows = std::make_shared<PerPass<Rows>>();
  Tensor anchor;  // empty; its inputs are W and b, and it is an input of every step

  // Wᵀ from the second step of many rows on, until W changes.
  Tensor turned_weight;
  uint64_t version = 0;
  bool many_before = false;

  Tensor times(const Tensor& x, const Tensor& addend) {
    constexpr int64_t kMany = 16;
    if (x.size(0) < kMany || !std::exchange(many_before, true)) return product(x, layer, addend);
    if (!turned_weight || version != layer.weight.version()) {
      turned_weight = turned(layer.weight);
      version = layer.weight.version();
    }
    return product(x, turned_weight, layer.bias, addend);
  }

  void record_anchor() {
    const bool want_dw = layer.weight.requires_grad(), want_db = layer.bias.requires_grad();
    anchor = record("stepped linear", {layer.weight, layer.bias}, nothing(),
                    [left = rows, want_dw, want_db](const Tensor&) {
                      const Rows all = left->take();
                      const Tensor dy = pile(all.dy);
                      Grads grads(2);
                      if (want_dw) grads[0] = d_product_weight(dy, pile(all.x));
                      if (want_db) grads[1] = d_product_bias(dy);
                      return grads;
                    });
  }
};

SteppedLinear::SteppedLinear(const Linear& layer) : steps_(std::make_shared<Steps>()) {
  steps_->layer = layer;
}

Tensor SteppedLinear::operator()(const Tensor& x, const Tensor& addend) {
  Steps& steps = *steps_;
  const Linear& layer = steps.layer;
  expect_input("stepped linear", x, layer);
  if (x.rank() != 2) {
    throw Error("stepped linear", "x is " + to_string(x.shape()) + ", expected [B, I]");
  }
  if (addend && addend.shape() != Shape{x.size(0), layer.weight.size(0)}) {
    throw Error("stepped linear", "addend is " + to_string(addend.shape()) + ", expected " +
                                      to_string({x.size(0), layer.weight.size(0)}));
  }
  const Tensor y = steps.times(x, addend);
  if (!grad_enabled()) return y;
  if (!steps.anchor && (layer.weight.requires_grad() || layer.bias.requires_grad())) {
    steps.record_anchor();
  }
  const std::vector<Tensor> inputs{x, addend, steps.anchor};
  if (!needs_grad(inputs)) return y;
  const bool want_dx = x.requires_grad(), learns = steps.anchor.defined();
  return record("stepped linear", inputs, y,
                [kx = learns ? Saved(x) : Saved(), kw = want_dx ? Saved(layer.weight) : Saved(),
                 want_dx, learns, rows = steps.rows](const Tensor& dy) {
                  Grads grads{{}, dy, {}};
                  if (want_dx) grads[0] = d_product_x(dy, kw.get("stepped linear"));
                  if (!learns) return grads;
                  const bool first = rows->leave([&](Rows& left) {
                    left.x.push_back(kx.get("stepped linear"));
                    left.dy.push_back(dy);
                  });
                  if (first) grads[2] = nothing();
                  return grads;
                });
}

}  // namespace fovea::nn
