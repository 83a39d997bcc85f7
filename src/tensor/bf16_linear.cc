#include "fovea/ops.h"
#include "tensor/cross_entropy.h"
#include "tensor/impl.h"
#include "tensor/linear.h"
#include "tensor/tape.h"

// Products of bf16, whose sums are float32. Weights become bf16 on the way, once a call; their
// gradients are float32.
namespace fovea {
namespace {

// A matrix of bf16 as products take it.
struct Bf16Side {
  const kernels::Bf16* data;
  int64_t rows, cols, row, col;
};
Bf16Side side_of(const Tensor& t) {
  return {raw_bf16(t), t.size(0), t.size(1), t.strides()[0], t.strides()[1]};
}
Bf16Side across(const Bf16Side& s) { return {s.data, s.cols, s.rows, s.col, s.row}; }

// As rows of the last dimension, side by side; copies where the strides demand it.
Tensor bf16_matrix(const Tensor& x) {
  const Tensor rows = as_rows(x);
  const bool fits = rows.strides()[1] == 1 && rows.strides()[0] >= rows.size(1);
  return fits ? rows : rows.contiguous();
}

// c = a·b + bias.
void multiply(const Bf16Side& a, const Bf16Side& b, const Tensor& c, const Tensor& bias = {}) {
  bf16_on(c).gemm({.m = a.rows,
                   .n = b.cols,
                   .k = a.cols,
                   .a = a.data,
                   .a_row = a.row,
                   .a_col = a.col,
                   .b = b.data,
                   .b_row = b.row,
                   .b_col = b.col,
                   .c = c.impl()->data,
                   .c_type = number_of(c.dtype()),
                   .c_row = c.strides()[0],
                   .bias = bias ? raw_bf16(bias) : nullptr});
}

// [rows, columns] of bf16 whose rows begin at 16 bytes: products are several times as slow where
// they do not.
Tensor aligned_rows(const Tensor& where, int64_t rows, int64_t columns) {
  const int64_t row = (columns + 7) / 8 * 8;
  return view_of(empty_at(where, {rows, row}, DType::bf16), {rows, columns}, {row, 1}, 0);
}

Tensor shaped_as(const Tensor& rows, Shape shape) {
  shape.back() = rows.size(1);
  return rows.reshape(shape);
}

// How wide rows of logits are: products with a number of columns that 64 does not divide take
// several times as long.
int64_t padded(int64_t columns) { return (columns + 63) / 64 * 64; }

// f32 [n,..] as bf16, with zeros behind it up to `rows`.
Tensor padded_weights(const Tensor& t, int64_t rows) {
  const Tensor from = t.detach().to(DType::f32).contiguous();
  Shape shape = from.shape();
  shape[0] = rows;
  const Tensor to = empty_at(t, shape, DType::bf16);
  const int64_t given = from.numel();
  bf16_on(to).narrow(given, raw(from), raw_bf16(to));
  on(to).clear(raw_bf16(to) + given,
               static_cast<size_t>(to.numel() - given) * sizeof(kernels::Bf16));
  return to;
}

Tensor first_rows(const Tensor& t, int64_t n) {
  Shape shape = t.shape();
  shape[0] = n;
  return view_of(t, shape, t.strides(), 0);
}

}  // namespace

Tensor bf16_linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Tensor w = weight.detach().to(DType::bf16).contiguous(), a = bf16_matrix(x);
  const Tensor b = bias ? bias.detach().to(DType::bf16).contiguous() : Tensor();
  const Tensor y = aligned_rows(x, a.size(0), w.size(0));
  multiply(side_of(a), across(side_of(w)), y, b);
  const bool want_dx = x.requires_grad(), want_dw = weight.requires_grad();
  const bool want_db = bias.requires_grad();
  return record("linear", {x, weight, bias}, shaped_as(y, x.shape()),
                [kx = want_dw ? Saved(a) : Saved(), kw = want_dx ? Saved(w) : Saved(),
                 shape = x.shape(), want_dx, want_dw, want_db](const Tensor& d) {
                  const Tensor dy = bf16_matrix(d);
                  Grads grads(3);
                  if (want_dx) {
                    const Tensor& weights = kw.get("linear");
                    const Tensor dx = aligned_rows(dy, dy.size(0), weights.size(1));
                    multiply(side_of(dy), side_of(weights), dx);
                    grads[0] = shaped_as(dx, shape);
                  }
                  if (want_dw) {
                    const Tensor& from = kx.get("linear");
                    grads[1] = empty_at(dy, {dy.size(1), from.size(1)});
                    multiply(across(side_of(dy)), side_of(from), grads[1]);
                  }
                  if (want_db) {
                    grads[2] = empty_at(dy, {dy.size(1)});
                    bf16_on(dy).sum_rows({dy.size(0), dy.size(1), dy.strides()[0]}, raw_bf16(dy),
                                         raw(grads[2]));
                  }
                  return grads;
                });
}

// dlogits = g·(p − [c = t]), 0 behind the last class; dx = dlogits·W, dW = dlogitsᵀ·x, db = Σ
// dlogits
Tensor linear_cross_entropy(const Tensor& x, const LinearWeights& w, const Tensor& targets,
                            const CrossEntropy& how) {
  if (!x || !is_bf16(x)) return cross_entropy(linear(x, w.weight, w.bias), targets, how);
  const char* call = "linear_cross_entropy";
  expect_linear(call, x, w);
  const int64_t classes = w.weight.size(0), wide = padded(classes);
  Shape shape = x.shape();
  shape.back() = classes;
  const LossOf of = loss_of(shape, targets, how);
  const Tensor a = bf16_matrix(x), weights = padded_weights(w.weight, wide);
  const Tensor bias = w.bias ? padded_weights(w.bias, wide) : Tensor();
  const Tensor logits = empty_at(x, {a.size(0), wide}, DType::bf16);
  multiply(side_of(a), across(side_of(weights)), logits, bias);
  const Tensor t = targets.contiguous().to(x.device());
  const Tensor max = empty_at(x, {a.size(0)}), log = empty_at(x, {a.size(0)});
  Tensor loss = empty_at(x, targets.shape());
  const kernels::Bf16Rows rows{a.size(0), classes, wide};
  bf16_on(x).cross_entropy_rows(rows, of.targets(t), raw_bf16(logits), {raw(max), raw(log)},
                                raw(loss));
  if (of.reduced) loss = sum(loss) * of.factor;
  const bool want_dx = x.requires_grad(), want_dw = w.weight.requires_grad();
  const bool want_db = w.bias.requires_grad();
  return record(
      call, {x, w.weight, w.bias}, loss,
      [=, a = Saved(a), weights = Saved(weights), logits = Saved(logits), max = Saved(max),
       log = Saved(log), t = Saved(t), shape = x.shape()](const Tensor& d_loss) {
        const Tensor d = d_loss.contiguous();
        const Tensor& from = logits.get(call);
        const Tensor dy = empty_at(from, from.shape(), DType::bf16);
        bf16_on(dy).d_cross_entropy_rows(rows, of.targets(t.get(call)), of.gradient(raw(d)),
                                         raw_bf16(from), {raw(max.get(call)), raw(log.get(call))},
                                         raw_bf16(dy));
        Grads grads(3);
        if (want_dx) {
          grads[0] = empty_at(dy, shape, DType::bf16);
          multiply(side_of(dy), side_of(weights.get(call)), grads[0].reshape({-1, shape.back()}));
        }
        if (want_dw) {
          const Tensor dw = empty_at(dy, {wide, shape.back()});
          multiply(across(side_of(dy)), side_of(a.get(call)), dw);
          grads[1] = first_rows(dw, classes);
        }
        if (want_db) {
          grads[2] = empty_at(dy, {classes});
          bf16_on(dy).sum_rows(rows, raw_bf16(dy), raw(grads[2]));
        }
        return grads;
      });
}

}  // namespace fovea
