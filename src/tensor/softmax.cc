#include <algorithm>

#include "fovea/ops.h"
#include "kernels/cross_entropy.h"
#include "kernels/rowwise.h"
#include "tensor/cross_entropy.h"
#include "tensor/impl.h"
#include "tensor/tape.h"

namespace fovea {
namespace {

kernels::Rows softmax_rows(const Tensor& x) {
  const int64_t n = x.size(-1);
  return {n == 0 ? 0 : x.numel() / n, n};
}

using kernels::Kernels;
using Forward = decltype(&Kernels::softmax_rows);
using Gradient = decltype(&Kernels::d_softmax_rows);

// Along the last dimension; another one is swapped there and back.
Tensor along(const char* call, const Tensor& x, int dim, Forward forward, Gradient gradient) {
  expect_dtype(call, "x", x, DType::f32);
  dim = wrap_dim(call, dim, x.rank());
  if (dim != x.rank() - 1) {
    return along(call, x.transpose(dim, -1), -1, forward, gradient).transpose(dim, -1);
  }
  Tensor y = empty_at(x, x.shape());
  (on(y).*forward)(softmax_rows(x), raw(x.detach().contiguous()), raw(y));
  if (!needs_grad({&x, 1})) return y;
  return record(call, {x}, y, [call, gradient, kept = Saved(y)](const Tensor& dy) {
    Tensor dx = empty_at(dy, dy.shape());
    (on(dx).*gradient)(softmax_rows(dy), raw(kept.get(call)), raw(dy.contiguous()), raw(dx));
    return Grads{dx};
  });
}

// Rows of bf16 that may lie apart; the loss is f32.
Tensor bf16_rows(const Tensor& x) {
  const Tensor rows = x.detach().reshape({-1, x.size(-1)});
  return rows.strides()[1] == 1 ? rows : rows.contiguous();
}
kernels::Bf16Rows rows_of(const Tensor& rows) {
  return {rows.size(0), rows.size(1), rows.strides()[0]};
}
// The same places, elsewhere.
Tensor empty_like(const Tensor& rows) {
  const int64_t n = rows.size(1), row = std::max(rows.strides()[0], n);
  return view_of(empty_at(rows, {rows.size(0), row}, DType::bf16), {rows.size(0), n}, {row, 1}, 0);
}

}  // namespace

Tensor softmax(const Tensor& x, int dim) {
  return along("softmax", x, dim, &Kernels::softmax_rows, &Kernels::d_softmax_rows);
}

Tensor log_softmax(const Tensor& x, int dim) {
  return along("log_softmax", x, dim, &Kernels::log_softmax_rows, &Kernels::d_log_softmax_rows);
}

LossOf loss_of(const Shape& logits, const Tensor& targets, const CrossEntropy& how) {
  expect_dtype("cross_entropy", "targets", targets, DType::i64);
  if (logits.empty() || targets.shape() != Shape(logits.begin(), logits.end() - 1)) {
    throw Error("cross_entropy", "logits is " + to_string(logits) + ", targets is " +
                                     to_string(targets.shape()) + ", expected [..,C] and [..]");
  }
  int64_t counted = 0;
  for (const int64_t t : targets.to_ids()) {
    counted += t != how.ignore_index;
    if (t != how.ignore_index && (t < 0 || t >= logits.back())) {
      throw Error("cross_entropy", "target " + std::to_string(t) + " is not in 0 … " +
                                       std::to_string(logits.back() - 1));
    }
  }
  if (!(how.label_smoothing >= 0.0f && how.label_smoothing <= 1.0f)) {
    throw Error("cross_entropy",
                "label_smoothing must be in 0 … 1, found " + std::to_string(how.label_smoothing));
  }
  const bool mean = how.reduction == Reduction::mean && counted > 0;
  return {how, mean ? 1.0f / static_cast<float>(counted) : 1.0f, how.reduction != Reduction::none};
}

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropy& how) {
  expect_floats("cross_entropy", "logits", logits);
  const LossOf of = loss_of(logits.shape(), targets, how);
  const kernels::Rows rows{targets.numel(), logits.size(-1)};
  const bool narrow = is_bf16(logits);
  const Tensor t = targets.contiguous().to(logits.device());
  const Tensor x = narrow ? bf16_rows(logits) : logits.detach().contiguous();
  const Tensor max = empty_at(x, {rows.count}), log = empty_at(x, {rows.count});
  Tensor loss = empty_at(x, targets.shape());
  const kernels::LogSums sums{raw(max), raw(log)};
  if (narrow) {
    bf16_on(x).cross_entropy_rows(rows_of(x), of.targets(t), raw_bf16(x), sums, raw(loss));
  } else {
    on(x).cross_entropy_rows(rows, of.targets(t), raw(x), sums, raw(loss));
  }
  if (of.reduced) loss = sum(loss) * of.factor;
  if (!needs_grad({&logits, 1})) return loss;
  return record("cross_entropy", {logits}, loss,
                [=, shape = logits.shape(), x = Saved(x), max = Saved(max), log = Saved(log),
                 t = Saved(t)](const Tensor& d_loss) {
                  const char* call = "cross_entropy";
                  const Tensor d = d_loss.contiguous();
                  const Tensor& from = x.get(call);
                  const kernels::Targets ids = of.targets(t.get(call));
                  const kernels::LogSums at{raw(max.get(call)), raw(log.get(call))};
                  const Tensor dx = narrow ? empty_like(from) : empty_at(d, from.shape());
                  if (narrow) {
                    bf16_on(dx).d_cross_entropy_rows(rows_of(from), ids, of.gradient(raw(d)),
                                                     raw_bf16(from), at, raw_bf16(dx));
                  } else {
                    on(dx).d_cross_entropy_rows(rows, ids, of.gradient(raw(d)), raw(from), at,
                                                raw(dx));
                  }
                  return Grads{dx.reshape(shape)};
                });
}

}  // namespace fovea
