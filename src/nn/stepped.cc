#include <utility>

#include "fovea/nn.h"
#include "nn/product.h"
#include "tensor/tape.h"

namespace fovea::nn {
namespace {

// What the steps keep for the one product, last step first.
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
  Deferred<Rows> learned;  // W and b; from the first step recorded on

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

  const Deferred<Rows>& weights() {
    if (learned) return learned;
    const bool want_dw = layer.weight.requires_grad(), want_db = layer.bias.requires_grad();
    return learned = Deferred<Rows>("stepped linear", {layer.weight, layer.bias},
                                    [want_dw, want_db](const Rows& all) {
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
  const Deferred<Rows>& weights = steps.weights();
  if (!weights && !needs_grad(std::vector{x, addend})) return y;
  const bool want_dx = x.requires_grad();
  return weights.use(
      "stepped linear", {x, addend}, y,
      [kx = weights ? Saved(x) : Saved(), kw = want_dx ? Saved(layer.weight) : Saved(), want_dx](
          const Tensor& dy, Rows* kept) {
        if (kept != nullptr) {
          kept->x.push_back(kx.get("stepped linear"));
          kept->dy.push_back(dy);
        }
        const Tensor dx = want_dx ? d_product_x(dy, kw.get("stepped linear")) : Tensor();
        return Grads{dx, dy};
      });
}

}  // namespace fovea::nn
