#include "fovea/ops.h"
#include "kernels/cross_entropy.h"
#include "kernels/rowwise.h"
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

// How many are not ignored.
int64_t check_targets(const Tensor& logits, const Tensor& targets, int64_t ignore) {
  expect_dtype("cross_entropy", "logits", logits, DType::f32);
  expect_dtype("cross_entropy", "targets", targets, DType::i64);
  if (logits.rank() == 0 ||
      targets.shape() != Shape(logits.shape().begin(), logits.shape().end() - 1)) {
    throw Error("cross_entropy", "logits is " + to_string(logits.shape()) + ", targets is " +
                                     to_string(targets.shape()) + ", expected [..,C] and [..]");
  }
  int64_t counted = 0;
  for (const int64_t t : targets.to_ids()) {
    counted += t != ignore;
    if (t != ignore && (t < 0 || t >= logits.size(-1))) {
      throw Error("cross_entropy", "target " + std::to_string(t) + " is not in 0 … " +
                                       std::to_string(logits.size(-1) - 1));
    }
  }
  return counted;
}

}  // namespace

Tensor softmax(const Tensor& x, int dim) {
  return along("softmax", x, dim, &Kernels::softmax_rows, &Kernels::d_softmax_rows);
}

Tensor log_softmax(const Tensor& x, int dim) {
  return along("log_softmax", x, dim, &Kernels::log_softmax_rows, &Kernels::d_log_softmax_rows);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropy& how) {
  const int64_t counted = check_targets(logits, targets, how.ignore_index);
  if (!(how.label_smoothing >= 0.0f && how.label_smoothing <= 1.0f)) {
    throw Error("cross_entropy",
                "label_smoothing must be in 0 … 1, found " + std::to_string(how.label_smoothing));
  }
  const kernels::Rows rows{targets.numel(), logits.size(-1)};
  const auto named = [how](const Tensor& t) {
    return kernels::Targets{raw_ids(t), how.ignore_index, how.label_smoothing};
  };
  const Tensor t = targets.contiguous().to(logits.device()), x = logits.detach().contiguous();
  const Tensor max = empty_at(x, {rows.count}), log = empty_at(x, {rows.count});
  Tensor loss = empty_at(x, targets.shape());
  on(x).cross_entropy_rows(rows, named(t), raw(x), {raw(max), raw(log)}, raw(loss));
  const float factor =
      how.reduction == Reduction::mean && counted > 0 ? 1.0f / static_cast<float>(counted) : 1.0f;
  const bool reduced = how.reduction != Reduction::none;
  if (reduced) loss = sum(loss) * factor;
  if (!needs_grad({&logits, 1})) return loss;
  return record(
      "cross_entropy", {logits}, loss,
      [=, x = Saved(x), max = Saved(max), log = Saved(log), t = Saved(t)](const Tensor& d_loss) {
        const char* call = "cross_entropy";
        const Tensor d = d_loss.contiguous();
        Tensor dx = empty_at(d, x.get(call).shape());
        on(dx).d_cross_entropy_rows(rows, named(t.get(call)), {raw(d), reduced ? 0 : 1, factor},
                                    raw(x.get(call)), {raw(max.get(call)), raw(log.get(call))},
                                    raw(dx));
        return Grads{dx};
      });
}

}  // namespace fovea
