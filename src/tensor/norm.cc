#include <cmath>

#include "core/random.h"
#include "fovea/ops.h"
#include "kernels/dropout.h"
#include "kernels/rowwise.h"
#include "tensor/impl.h"
#include "tensor/tape.h"

namespace fovea {
namespace {

enum class Centre : uint8_t { yes, no };

struct Normed {
  Tensor y, mean, rstd;  // one mean and 1/σ per row; no mean when not centred
};

void expect_affine(const char* call, const char* name, const Tensor& t, int64_t n) {
  if (!t) return;
  expect_dtype(call, name, t, DType::f32);
  if (t.shape() != Shape{n}) {
    throw Error(call, std::string(name) + " is " + to_string(t.shape()) + ", expected [" +
                          std::to_string(n) + "]");
  }
}

float* or_null(const Tensor& t) { return t ? raw(t) : nullptr; }

// Rows of the last dimension; formulas in kernels/rowwise.h.
struct Norm {
  const char* call;
  Centre centre;
  float epsilon;
};
Normed normalise(const Norm& how, const Tensor& x, const Tensor& weight = {},
                 const Tensor& bias = {}) {
  const char* call = how.call;
  expect_floats(call, "x", x);
  if (x.rank() == 0) throw Error(call, "x is a scalar, expected [..,D]");
  const int64_t n = x.size(-1);
  expect_affine(call, "weight", weight, n);
  expect_affine(call, "bias", bias, n);
  expect_together(call, {&x, &weight, &bias});
  const kernels::Rows rows{n == 0 ? 0 : x.numel() / n, n};
  const Tensor dense = x.detach().contiguous();
  const Tensor w = weight ? weight.detach().contiguous() : weight;
  const Tensor b = bias ? bias.detach().contiguous() : bias;
  const bool narrow = is_bf16(x);
  Normed out{empty_at(x, x.shape(), x.dtype()), {}, empty_at(x, {rows.count})};
  if (how.centre == Centre::yes) out.mean = empty_at(x, {rows.count});
  const kernels::Affine by{or_null(w), or_null(b), how.epsilon};
  const kernels::Moments to{or_null(out.mean), raw(out.rstd)};
  if (narrow) {
    bf16_on(x).norm_rows(rows, raw_bf16(dense), by, raw_bf16(out.y), to);
  } else {
    on(x).norm_rows(rows, raw(dense), by, raw(out.y), to);
  }
  const std::vector<Tensor> inputs{x, weight, bias};
  if (!needs_grad(inputs)) return out;
  const bool want_dw = weight.requires_grad(), want_db = bias.requires_grad();
  out.y = record(
      call, inputs, out.y,
      [=, x = Saved(dense), w = Saved(w), mean = Saved(out.mean),
       rstd = Saved(out.rstd)](const Tensor& d) {
        const Tensor dy = d.contiguous();
        const kernels::Moments at{or_null(mean.get(call)), raw(rstd.get(call))};
        const float* scale = or_null(w.get(call));
        Grads grads{empty_at(dy, dy.shape(), dy.dtype()), {}, {}};
        if (want_dw) grads[1] = empty_at(dy, {n});
        if (want_db) grads[2] = empty_at(dy, {n});
        float *dw = or_null(grads[1]), *db = or_null(grads[2]);
        if (narrow) {
          bf16_on(dy).d_norm_rows(rows, {raw_bf16(x.get(call)), at, raw_bf16(dy)}, scale,
                                  {raw_bf16(grads[0]), dw, db});
        } else {
          on(dy).d_norm_rows(rows, {raw(x.get(call)), at, raw(dy)}, scale, {raw(grads[0]), dw, db});
        }
        return grads;
      });
  return out;
}

// [C] beside x [N,C,..]
Tensor per_channel(const Tensor& t, int rank) {
  Shape shape(rank, 1);
  shape[1] = t.numel();
  return t.reshape(shape);
}

// running += momentum·(batch − running); the variance without bias: n/(n−1)
void follow(BatchNorm& state, const Normed& batch, int64_t n) {
  if (!state.running_mean) return;
  const NoGrad off;
  const float m = state.momentum;
  state.running_mean.mul_(1.0f - m).add_(batch.mean, m);
  const Tensor var = 1.0f / square(batch.rstd) - state.epsilon;
  const float unbias = n > 1 ? static_cast<float>(n) / static_cast<float>(n - 1) : 1.0f;
  state.running_var.mul_(1.0f - m).add_(var, m * unbias);
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, float epsilon) {
  return normalise({"layer_norm", Centre::yes, epsilon}, x, weight, bias).y;
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, float epsilon) {
  return normalise({"rms_norm", Centre::no, epsilon}, x, weight).y;
}

// Training: a channel is a row. Evaluation: y = (x − μ)·w/√(σ² + ε) + b.
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, BatchNorm& state,
                  Mode mode) {
  expect_dtype("batch_norm", "x", x, DType::f32);
  if (x.rank() < 2) {
    throw Error("batch_norm", "x is " + to_string(x.shape()) + ", expected [N,C,..]");
  }
  const int64_t C = x.size(1);
  expect_affine("batch_norm", "weight", weight, C);
  expect_affine("batch_norm", "bias", bias, C);
  expect_affine("batch_norm", "running_mean", state.running_mean, C);
  expect_affine("batch_norm", "running_var", state.running_var, C);
  if (state.running_mean.defined() != state.running_var.defined()) {
    throw Error("batch_norm", "running_mean and running_var come together");
  }
  Tensor y;
  if (mode == Mode::train) {
    const Tensor by_channel = x.transpose(0, 1);
    const int64_t n = C == 0 ? 0 : x.numel() / C;
    const Normed unit =
        normalise({"batch_norm", Centre::yes, state.epsilon}, by_channel.reshape({C, n}));
    if (n > 0) follow(state, unit, n);
    y = unit.y.reshape(by_channel.shape()).transpose(0, 1);
  } else {
    if (!state.running_mean) throw Error("batch_norm", "evaluation needs running statistics");
    const Tensor rstd = 1.0f / sqrt(state.running_var.detach() + state.epsilon);
    const Tensor mean = state.running_mean.detach();
    y = (x - per_channel(mean, x.rank())) * per_channel(rstd, x.rank());
  }
  if (weight) y = y * per_channel(weight, x.rank());
  if (bias) y = y + per_channel(bias, x.rank());
  return y;
}

// y = x·kept/(1−p); the gradient draws the same numbers again.
Tensor dropout(const Tensor& x, float probability, uint64_t seed) {
  expect_floats("dropout", "x", x);
  if (!(probability >= 0.0f && probability <= 1.0f)) {
    throw Error("dropout", "probability must be in 0 … 1, found " + std::to_string(probability));
  }
  if (probability == 0.0f) return x;
  const kernels::Drop drop{random_key(seed, Purpose::dropout),
                           static_cast<uint64_t>(std::ldexp(static_cast<double>(probability), 32)),
                           probability < 1.0f ? 1.0f / (1.0f - probability) : 0.0f};
  const auto apply = [drop](const Tensor& t) {
    const Tensor y = empty_at(t, t.shape(), t.dtype()), from = t.contiguous();
    if (is_bf16(t)) {
      bf16_on(y).dropout(t.numel(), raw_bf16(from), drop, raw_bf16(y));
    } else {
      on(y).dropout(t.numel(), raw(from), drop, raw(y));
    }
    return y;
  };
  return record("dropout", {x}, apply(x.detach()),
                [apply](const Tensor& dy) { return Grads{apply(dy)}; });
}

}  // namespace fovea
