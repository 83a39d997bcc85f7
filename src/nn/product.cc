#include "nn/product.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/threads.h"
#include "kernels/copy.h"
#include "kernels/gemm.h"
#include "kernels/reduce.h"
#include "tensor/impl.h"
#include "tensor/tape.h"

namespace fovea::nn {
namespace {

// As rows of the last dimension; copies where the strides demand it.
Tensor rows_of(const Tensor& x) {
  if (x.rank() == 2) return x.detach();
  const Shape& shape = x.shape();
  const int64_t rows =
      std::accumulate(shape.begin(), shape.end() - 1, int64_t{1}, std::multiplies<>());
  return x.detach().reshape({rows, shape.back()});
}

// c = beta·c + a·b
void multiply(const Tensor& a, const Tensor& b, float* c, float beta) {
  kernels::gemm({.m = a.size(0),
                 .n = b.size(1),
                 .k = a.size(1),
                 .a = raw(a),
                 .a_row = a.strides()[0],
                 .a_col = a.strides()[1],
                 .b = raw(b),
                 .b_row = b.strides()[0],
                 .b_col = b.strides()[1],
                 .c = c,
                 .c_row = b.size(1),
                 .beta = beta});
}

Tensor transposed(const Tensor& x) {
  return view_of(x, {x.size(1), x.size(0)}, {x.strides()[1], x.strides()[0]}, 0);
}

}  // namespace

Tensor turned(const Tensor& weight) {
  const int64_t rows = weight.size(0), cols = weight.size(1);
  const int64_t down = weight.strides()[0], right = weight.strides()[1];
  if (down == 1 && right >= rows) return transposed(weight);
  // Rows a multiple of 4 KiB apart fall on the same cache lines: a tenth of a product's time.
  const int64_t wide = rows % 1024 == 0 ? rows + 16 : rows;
  const Tensor to = Tensor::empty({cols, wide});
  const int64_t shape[2] = {cols, rows}, from[2] = {right, down}, into[2] = {wide, 1};
  kernels::strided_copy(shape, sizeof(float), {raw(weight), from}, {raw(to), into});
  return view_of(to, {cols, rows}, {wide, 1}, 0);
}

Tensor product(const Tensor& x, const Tensor& b, const Tensor& bias, const Tensor& addend) {
  Shape shape = x.shape();
  shape.back() = b.size(1);
  const Tensor y = Tensor::empty(shape), a = rows_of(x);
  const bool filled = bias || addend;
  if (filled) {
    const Tensor fixed = bias ? bias.detach().contiguous() : Tensor();
    const Tensor start = addend ? addend.detach().contiguous() : Tensor();
    fill_rows(raw(y), a.size(0), shape.back(), fixed ? raw(fixed) : nullptr,
              start ? raw(start) : nullptr);
  }
  multiply(a, b, raw(y), filled ? 1.0f : 0.0f);
  return y;
}

Tensor product(const Tensor& x, const Linear& layer, const Tensor& addend) {
  constexpr int64_t kMany = 512;
  const bool many = x.numel() >= kMany * layer.weight.size(1);
  return product(x, many ? turned(layer.weight) : transposed(layer.weight), layer.bias, addend);
}

void fill_rows(float* y, int64_t rows, int64_t n, const float* bias, const float* addend) {
  parallel_for(rows, n, [&](int64_t r) {
    float* to = y + r * n;
    const float* from = addend == nullptr ? bias : addend + r * n;
    if (from == nullptr) {
      std::fill_n(to, n, 0.0f);
    } else if (bias == nullptr || addend == nullptr) {
      std::copy_n(from, n, to);
    } else {
      for (int64_t j = 0; j < n; ++j) to[j] = from[j] + bias[j];
    }
  });
}

Tensor d_product_x(const Tensor& dy, const Tensor& weight) {
  Shape shape = dy.shape();
  shape.back() = weight.size(1);
  const Tensor dx = Tensor::empty(shape);
  multiply(rows_of(dy), weight, raw(dx), 0.0f);
  return dx;
}

Tensor d_product_weight(const Tensor& dy, const Tensor& x) {
  const Tensor a = rows_of(dy), b = rows_of(x);
  const Tensor dw = Tensor::empty({a.size(1), b.size(1)});
  multiply(transposed(a), b, raw(dw), 0.0f);
  return dw;
}

Tensor d_product_bias(const Tensor& dy) {
  const Tensor a = rows_of(dy);
  const Tensor db = Tensor::empty({a.size(1)});
  const Shape kept{a.size(1)}, reduced{a.size(0)};
  kernels::reduce(kernels::Reduce::sum, {kept, &a.strides()[1]}, {reduced, &a.strides()[0]}, raw(a),
                  raw(db));
  return db;
}

void expect_input(const char* call, const Tensor& x, const Linear& layer) {
  expect_dtype(call, "weight", layer.weight, DType::f32);
  expect_dtype(call, "x", x, DType::f32);
  const auto found = [](const Tensor& t) { return to_string(t.shape()); };
  if (layer.weight.rank() != 2) {
    throw Error(call, "weight is " + found(layer.weight) + ", expected [O, I]");
  }
  if (layer.bias && layer.bias.shape() != Shape{layer.weight.size(0)}) {
    throw Error(call, "bias is " + found(layer.bias) + ", weight is " + found(layer.weight));
  }
  if (x.rank() == 0 || x.size(-1) != layer.weight.size(1)) {
    throw Error(
        call, "x is " + found(x) + ", expected [.., " + std::to_string(layer.weight.size(1)) + "]");
  }
}

}  // namespace fovea::nn
