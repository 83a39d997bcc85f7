#include "tensor/stepped_linear.h"

#include <utility>

#include "fovea/ops.h"
#include "tensor/impl.h"

namespace fovea {
namespace {

Tensor all_rows(const std::vector<Tensor>& parts) {
  return parts.size() == 1 ? parts[0] : concatenate(parts, 0);
}

}  // namespace

Tensor LinearSteps::times_weight(const Tensor& x, const Tensor& addend) {
  constexpr int64_t kMany = 16;
  if (x.size(0) < kMany || !std::exchange(many_before_, true)) return product(x, weights_, addend);
  if (!weight_t_ || version_ != weights_.weight.version()) {
    weight_t_ = dense_transpose(weights_.weight);
    version_ = weights_.weight.version();
  }
  return product_with_transpose(x, weight_t_, weights_.bias, addend);
}

const Deferred<LinearSteps::Rows>& LinearSteps::learned() {
  if (learned_) return learned_;
  const bool want_dw = weights_.weight.requires_grad(), want_db = weights_.bias.requires_grad();
  return learned_ = Deferred<Rows>("stepped linear", {weights_.weight, weights_.bias},
                                   [want_dw, want_db](const Rows& all) {
                                     const Tensor dy = all_rows(all.dy);
                                     Grads grads(2);
                                     if (want_dw) grads[0] = d_product_weight(dy, all_rows(all.x));
                                     if (want_db) grads[1] = d_product_bias(dy);
                                     return grads;
                                   });
}

Tensor LinearSteps::operator()(const Tensor& x, const Tensor& addend) {
  const Tensor& weight = weights_.weight;
  expect_linear("stepped linear", x, weights_);
  expect_dtype("stepped linear", "weight", weights_.weight, DType::f32);
  if (x.rank() != 2) {
    throw Error("stepped linear", "x is " + to_string(x.shape()) + ", expected [B, I]");
  }
  if (addend && addend.shape() != Shape{x.size(0), weight.size(0)}) {
    throw Error("stepped linear", "addend is " + to_string(addend.shape()) + ", expected " +
                                      to_string({x.size(0), weight.size(0)}));
  }
  expect_together("stepped linear", {&x, &addend});
  const Tensor y = times_weight(x, addend);
  if (!grad_enabled()) return y;
  const Deferred<Rows>& weights = learned();
  if (!weights && !needs_grad(std::vector{x, addend})) return y;
  const bool want_dx = x.requires_grad();
  return weights.use("stepped linear", {x, addend}, y,
                     [kx = weights ? Saved(x) : Saved(), kw = want_dx ? Saved(weight) : Saved(),
                      want_dx](const Tensor& dy, Rows* kept) {
                       if (kept != nullptr) {
                         kept->x.push_back(kx.get("stepped linear"));
                         kept->dy.push_back(dy);
                       }
                       const Tensor dx =
                           want_dx ? d_product_x(dy, kw.get("stepped linear")) : Tensor();
                       return Grads{dx, dy};
                     });
}

}  // namespace fovea
