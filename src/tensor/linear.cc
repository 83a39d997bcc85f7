#include "tensor/linear.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>

#include "fovea/ops.h"
#include "kernels/copy.h"
#include "kernels/gemm.h"
#include "kernels/reduce.h"
#include "tensor/impl.h"
#include "tensor/tape.h"

namespace fovea {
namespace {

Tensor transposed(const Tensor& x) {
  return view_of(x, {x.size(1), x.size(0)}, {x.strides()[1], x.strides()[0]}, 0);
}

// The right side of a product: a matrix, or weights as they are kept; its rows are k, or its
// columns.
struct Right {
  const Tensor& matrix;
  bool transposed = false;
  int k() const { return transposed ? 1 : 0; }
  int64_t columns() const { return matrix.size(1 - k()); }
};

// c = a·b + bias + plus; the last two may be undefined.
void multiply(const Tensor& a, const Right& b, float* c, const Tensor& bias = {},
              const Tensor& plus = {}) {
  const Tensor& scale = b.matrix.impl()->scale;
  on(a).gemm({.m = a.size(0),
              .n = b.columns(),
              .k = a.size(1),
              .a = raw(a),
              .a_row = a.strides()[0],
              .a_col = a.strides()[1],
              .b = b.matrix.impl()->data,
              .b_row = b.matrix.strides()[static_cast<size_t>(b.k())],
              .b_col = b.matrix.strides()[static_cast<size_t>(1 - b.k())],
              .b_type = number_of(b.matrix.dtype()),
              .b_scale = scale ? raw(scale) : nullptr,
              .scale_row = scale && !b.transposed ? 1 : 0,
              .scale_col = scale && b.transposed ? 1 : 0,
              .c = c,
              .c_row = b.columns(),
              .bias = bias ? raw(bias) : nullptr,
              .plus = plus ? raw(plus) : nullptr,
              .plus_row = b.columns()});
}

Tensor product_of(const Tensor& x, const Right& b, const Tensor& bias, const Tensor& addend) {
  Shape shape = x.shape();
  shape.back() = b.columns();
  const Tensor y = empty_at(x, shape), a = as_rows(x);
  multiply(a, b, raw(y), bias ? bias.detach().contiguous() : Tensor(),
           addend ? addend.detach().contiguous() : Tensor());
  return y;
}

}  // namespace

Tensor as_rows(const Tensor& x) {
  if (x.rank() == 2) return x.detach();
  const Shape& shape = x.shape();
  const int64_t rows =
      std::accumulate(shape.begin(), shape.end() - 1, int64_t{1}, std::multiplies<>());
  return x.detach().reshape({rows, shape.back()});
}

Tensor dense_transpose(const Tensor& weight) {
  const int64_t rows = weight.size(0), cols = weight.size(1);
  const int64_t down = weight.strides()[0], right = weight.strides()[1];
  if (down == 1 && right >= rows) return transposed(weight);
  // Rows a multiple of 4 KiB apart fall on the same cache lines: a tenth of a product's time.
  const int64_t wide = rows % 1024 == 0 ? rows + 16 : rows;
  const Tensor to = empty_at(weight, {cols, wide});
  const int64_t shape[2] = {cols, rows}, from[2] = {right, down}, into[2] = {wide, 1};
  on(to).strided_copy(std::span(shape), sizeof(float), {raw(weight), from}, {raw(to), into});
  return view_of(to, {cols, rows}, {wide, 1}, 0);
}

Tensor product_with_transpose(const Tensor& x, const Tensor& weight_t, const Tensor& bias,
                              const Tensor& addend) {
  return product_of(x, {weight_t}, bias, addend);
}

Tensor product(const Tensor& x, const LinearWeights& w, const Tensor& addend) {
  return product_of(x, {w.weight, true}, w.bias, addend);
}

Tensor d_product_x(const Tensor& dy, const Tensor& weight) {
  Shape shape = dy.shape();
  shape.back() = weight.size(1);
  const Tensor dx = empty_at(dy, shape);
  multiply(as_rows(dy), {weight}, raw(dx));
  return dx;
}

Tensor d_product_weight(const Tensor& dy, const Tensor& x) {
  const Tensor a = as_rows(dy), b = as_rows(x);
  const Tensor dw = empty_at(dy, {a.size(1), b.size(1)});
  multiply(transposed(a), {b}, raw(dw));
  return dw;
}

Tensor d_product_bias(const Tensor& dy) {
  const Tensor a = as_rows(dy);
  const Tensor db = empty_at(dy, {a.size(1)});
  const Shape kept{a.size(1)}, reduced{a.size(0)};
  on(db).reduce(kernels::Reduce::sum, {kept, &a.strides()[1]}, {reduced, &a.strides()[0]}, raw(a),
                raw(db));
  return db;
}

void expect_linear(const char* call, const Tensor& x, const LinearWeights& w) {
  expect_defined(call, "weight", w.weight);
  if (!is_weights(w.weight.dtype())) expect_dtype(call, "weight", w.weight, DType::f32);
  expect_floats(call, "x", x);
  const auto found = [](const Tensor& t) { return to_string(t.shape()); };
  if (w.weight.rank() != 2) {
    throw Error(call, "weight is " + found(w.weight) + ", expected [O, I]");
  }
  if (w.bias && w.bias.shape() != Shape{w.weight.size(0)}) {
    throw Error(call, "bias is " + found(w.bias) + ", weight is " + found(w.weight));
  }
  if (x.rank() == 0 || x.size(-1) != w.weight.size(1)) {
    throw Error(call,
                "x is " + found(x) + ", expected [.., " + std::to_string(w.weight.size(1)) + "]");
  }
  expect_together(call, {&x, &w.weight, &w.bias});
  if (!is_bf16(x)) expect_computed(call, "weight", w.weight);
}

// dx = dy·W, dW = dyᵀ·x, db = Σ dy
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const LinearWeights weights{weight, bias};
  expect_linear("linear", x, weights);
  if (is_bf16(x)) return bf16_linear(x, weight, bias);
  const Tensor y = product(x, weights);
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

}  // namespace fovea
