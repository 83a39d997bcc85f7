#include <map>
#include <mutex>

#include "fovea/nn.h"
#include "nn/product.h"
#include "tensor/impl.h"
#include "tensor/node.h"
#include "tensor/tape.h"

namespace fovea::nn {
namespace {

// What the steps' backward functions leave for the one product, by backward pass, last step first.
struct Rows {
  std::vector<Tensor> x, dy;
};
struct Ledger {
  std::mutex mutex;
  std::map<uint64_t, Rows> by_pass;

  // True for the pass's first step.
  bool keep(const Tensor& x, const Tensor& dy) {
    const std::lock_guard lock(mutex);
    const auto [it, first] = by_pass.try_emplace(current_pass());
    it->second.x.push_back(x);
    it->second.dy.push_back(dy);
    return first;
  }
  Rows take() {
    const std::lock_guard lock(mutex);
    return std::move(by_pass.extract(current_pass()).mapped());
  }
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
  std::shared_ptr<Ledger> ledger = std::make_shared<Ledger>();
  // Empty, recorded before all steps and an input of each of them: on the way back its turn comes
  // after theirs, and it has W and b as inputs.
  Tensor anchor;

  void record_anchor() {
    const bool want_dw = layer.weight.requires_grad(), want_db = layer.bias.requires_grad();
    anchor = record("stepped linear", {layer.weight, layer.bias}, Tensor::empty({0}),
                    [kept = ledger, want_dw, want_db](const Tensor&) {
                      const Rows rows = kept->take();
                      const Tensor dy = pile(rows.dy);
                      Grads grads(2);
                      if (want_dw) grads[0] = d_product_weight(dy, pile(rows.x));
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
  if (x.rank() != 2)
    throw Error("stepped linear", "x is " + to_string(x.shape()) + ", expected [B, I]");
  if (addend && addend.shape() != Shape{x.size(0), layer.weight.size(0)}) {
    throw Error("stepped linear", "addend is " + to_string(addend.shape()) + ", expected " +
                                      to_string({x.size(0), layer.weight.size(0)}));
  }
  const Tensor y = product(x, layer, addend);
  if (!grad_enabled()) return y;
  if (!steps.anchor && (layer.weight.requires_grad() || layer.bias.requires_grad())) {
    steps.record_anchor();
  }
  const std::vector<Tensor> inputs{x, addend, steps.anchor};
  if (!needs_grad(inputs)) return y;
  const bool want_dx = x.requires_grad(), learns = steps.anchor.defined();
  return record("stepped linear", inputs, y,
                [kx = learns ? Saved(x) : Saved(), kw = want_dx ? Saved(layer.weight) : Saved(),
                 want_dx, learns, ledger = steps.ledger](const Tensor& dy) {
                  Grads grads{{}, dy, {}};
                  if (want_dx) grads[0] = d_product_x(dy, kw.get("stepped linear"));
                  if (learns && ledger->keep(kx.get("stepped linear"), dy)) {
                    grads[2] = Tensor::empty({0});
                  }
                  return grads;
                });
}

}  // namespace fovea::nn
