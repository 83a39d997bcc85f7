#include "tensor/gru_steps.h"

#include <utility>

#include "fovea/ops.h"
#include "kernels/gemm.h"
#include "kernels/recurrent.h"
#include "tensor/impl.h"
#include "tensor/recurrent.h"

namespace fovea {
namespace {

constexpr const char* kGru = "gru";

// Rows whose elements lie next to each other, off the tape.
Tensor with_dense_rows(const Tensor& t) {
  const Tensor x = t.detach();
  return x.size(1) <= 1 || x.strides()[1] == 1 ? x : x.contiguous();
}

kernels::RowProduct row_product(const Tensor& a, const Tensor& w) {
  return {raw(a), a.strides()[0], a.size(1), raw(w), w.strides()[0]};
}

// to = dy·W, or what is there and that.
kernels::Gemm d_rows(const Tensor& dy, const Tensor& w, const Tensor& to, bool add) {
  return {.m = dy.size(0),
          .n = w.size(1),
          .k = dy.size(1),
          .a = raw(dy),
          .a_row = dy.size(1),
          .b = raw(w),
          .b_row = w.strides()[0],
          .b_col = w.strides()[1],
          .c = raw(to),
          .c_row = w.size(1),
          .plus = add ? raw(to) : nullptr,
          .plus_row = w.size(1)};
}

// What a step's backward needs.
struct GruStepKept {
  Tensor kept, active;
  Saved fed, h, w_fed, w;
  bool want_fed = false, want_h = false;
};

}  // namespace

bool has_gru_steps(const Tensor& t) { return on(t).gru_whole != nullptr; }

const Deferred<GruSteps::Rows>& GruSteps::learned() {
  if (learned_) return learned_;
  const bool want[] = {w_fed_.defined() && w_fed_.requires_grad(), state_.weight.requires_grad(),
                       state_.bias.requires_grad()};
  return learned_ = Deferred<Rows>(
             kGru, {w_fed_, state_.weight, state_.bias},
             [fed = want[0], weight = want[1], bias = want[2]](const Rows& all) {
               Grads grads(3);
               if (fed && !all.fed.empty()) {
                 grads[0] = d_product_weight(concatenate(all.dx, 0), concatenate(all.fed, 0));
               }
               const Tensor du = weight || bias ? concatenate(all.du, 0) : Tensor();
               if (weight) grads[1] = d_product_weight(du, concatenate(all.h, 0));
               if (bias) grads[2] = d_product_bias(du);
               return grads;
             });
}

void GruSteps::check(const Tensor& gates, const Tensor& fed, const Tensor& h,
                     const Tensor& active) const {
  const int64_t B = gates.rank() == 2 ? gates.size(0) : -1, H = state_.weight.size(1);
  const auto expect = [](const char* name, const Tensor& t, const Shape& shape, DType dtype) {
    expect_dtype(kGru, name, t, dtype);
    if (t.shape() == shape) return;
    throw Error(
        kGru, std::string(name) + " is " + to_string(t.shape()) + ", expected " + to_string(shape));
  };
  expect_dtype(kGru, "the state's weight", state_.weight, DType::f32);
  expect("gates_x", gates, {B, 3 * H}, DType::f32);
  expect("h", h, {B, H}, DType::f32);
  if (fed) expect("what is fed", fed, {B, w_fed_.size(1)}, DType::f32);
  if (active) expect("active", active, {B}, DType::boolean);
  expect_together(kGru, {&gates, &fed, &h, &state_.weight});
}

Tensor GruSteps::operator()(const Tensor& gates, const Tensor& fed, const Tensor& h,
                            const Tensor& given_active) {
  check(gates, fed, h, given_active);
  const Tensor active = given_active ? given_active.contiguous().to(h.device()) : given_active;
  const Tensor x = gates.detach().contiguous(), h0 = h.detach().contiguous();
  const Tensor y = empty_at(h, h.shape()), w = with_dense_rows(state_.weight);
  const Tensor bias = state_.bias ? state_.bias.detach().contiguous() : Tensor();
  const Tensor from = fed ? with_dense_rows(fed) : Tensor();
  const Tensor w_fed = fed ? with_dense_rows(w_fed_) : Tensor();
  const bool keep = grad_enabled() && (learned() || needs_grad(std::vector{gates, fed, h}));
  const Tensor kept = keep ? empty_at(h, {h.size(0), 4 * h.size(1)}) : Tensor();
  const kernels::GruWhole step{.rows = cell_rows(h0, active),
                               .step = {raw(x), nullptr, raw(h0), raw(y), raw_or_null(kept)},
                               .fed = fed ? row_product(from, w_fed) : kernels::RowProduct{},
                               .state = row_product(h0, w),
                               .bias = raw_or_null(bias)};
  on(y).gru_whole({&step, 1});
  if (!keep) return y;
  const GruStepKept s{.kept = kept,
                      .active = active,
                      .fed = fed ? Saved(from) : Saved(),
                      .h = Saved(h0),
                      .w_fed = fed ? Saved(w_fed) : Saved(),
                      .w = Saved(w),
                      .want_fed = fed && fed.requires_grad(),
                      .want_h = h.requires_grad()};
  return learned_.use(kGru, {gates, fed, h}, y, [s](const Tensor& d, Rows* all) {
    const Tensor dy = d.contiguous(), dh = empty_at(d, d.shape()), &before = s.h.get(kGru);
    const Shape wide{d.size(0), 3 * d.size(1)};
    const Tensor dx = empty_at(d, wide), du = empty_at(d, wide);
    on(dy).gru_backward(cell_rows(dy, s.active),
                        {raw(s.kept), raw(before), nullptr, raw(dy), raw(dx), raw(du), raw(dh)});
    const Tensor& from_outside = s.fed.get(kGru);
    if (all != nullptr) {
      if (from_outside) {
        all->fed.push_back(from_outside);
        all->dx.push_back(dx);
      }
      all->h.push_back(before);
      all->du.push_back(du);
    }
    const Tensor d_fed = s.want_fed ? empty_at(d, {d.size(0), from_outside.size(1)}) : Tensor();
    const kernels::Gemm state = d_rows(du, s.w.get(kGru), dh, true);
    if (s.want_fed && s.want_h) {
      on(dy).gemm_two(d_rows(dx, s.w_fed.get(kGru), d_fed, false), state);
    } else if (s.want_fed) {
      on(dy).gemm(d_rows(dx, s.w_fed.get(kGru), d_fed, false));
    } else if (s.want_h) {
      on(dy).gemm(state);
    }
    return Grads{dx, d_fed, s.want_h ? dh : Tensor()};
  });
}

}  // namespace fovea
