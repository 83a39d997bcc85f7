#include "kernels/reduce.h"

#include <algorithm>

#include "fovea/ops.h"
#include "tensor/broadcast.h"
#include "tensor/impl.h"
#include "tensor/tape.h"

namespace fovea {
namespace {

struct Dims {
  std::vector<char> reduced;  // by dimension
  Shape kept_shape;           // with size 1 where reduced
  Shape short_shape;          // without them
  int64_t count = 1;          // elements reduced into one
};

Dims plan(const char* call, const Tensor& x, const std::vector<int>& dims) {
  expect_dtype(call, "x", x, DType::f32);
  Dims d;
  d.reduced.assign(x.rank(), dims.empty());
  for (const int dim : dims) d.reduced[wrap_dim(call, dim, x.rank())] = 1;
  for (int i = 0; i < x.rank(); ++i) {
    d.kept_shape.push_back(d.reduced[i] ? 1 : x.shape()[i]);
    if (!d.reduced[i]) d.short_shape.push_back(x.shape()[i]);
    if (d.reduced[i]) d.count *= x.shape()[i];
  }
  return d;
}

// With the reduced dimensions dropped.
Tensor run(kernels::Reduce op, const Tensor& x, const Dims& d) {
  Tensor y = empty_at(x, d.short_shape);
  Shape kept_strides, sizes, strides;
  for (int i = 0; i < x.rank(); ++i) {
    if (d.reduced[i]) {
      sizes.push_back(x.shape()[i]);
      strides.push_back(x.strides()[i]);
    } else {
      kept_strides.push_back(x.strides()[i]);
    }
  }
  on(x).reduce(op, {d.short_shape, kept_strides.data()}, {sizes, strides.data()}, raw(x), raw(y));
  return y;
}

}  // namespace

Shape broadcast_shape(const char* call, const Shape& a, const Shape& b) {
  Shape shape(std::max(a.size(), b.size()));
  for (size_t i = 1; i <= shape.size(); ++i) {
    const int64_t x = i <= a.size() ? a[a.size() - i] : 1;
    const int64_t y = i <= b.size() ? b[b.size() - i] : 1;
    if (x != y && x != 1 && y != 1) {
      throw Error(call,
                  "a is " + to_string(a) + ", b is " + to_string(b) + ": sizes must be equal or 1");
    }
    shape[shape.size() - i] = x == 1 ? y : x;
  }
  return shape;
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  const int lead = x.rank() - static_cast<int>(shape.size());
  std::vector<int> dims;
  for (int d = 0; d < x.rank(); ++d) {
    if (d < lead || (shape[d - lead] == 1 && x.shape()[d] != 1)) dims.push_back(d);
  }
  return dims.empty() ? x.reshape(shape) : sum(x, dims).reshape(shape);
}

// dx = dy, repeated
Tensor sum(const Tensor& x, const std::vector<int>& dims, Keep keep) {
  const Dims d = plan("sum", x, dims);
  Tensor y = run(kernels::Reduce::sum, x, d);
  if (keep == Keep::yes) y = y.reshape(d.kept_shape);
  return record("sum", {x}, y, [shape = x.shape(), kept = d.kept_shape](const Tensor& dy) {
    return Grads{dy.reshape(kept).expand(shape)};
  });
}

Tensor mean(const Tensor& x, const std::vector<int>& dims, Keep keep) {
  const Dims d = plan("mean", x, dims);
  return sum(x, dims, keep) * (1.0f / static_cast<float>(d.count));
}

// dx = dy where x is the maximum, in equal parts among ties.
Tensor max(const Tensor& x, const std::vector<int>& dims, Keep keep) {
  const Dims d = plan("max", x, dims);
  if (d.count == 0) throw Error("max", "no elements to compare in " + to_string(x.shape()));
  const Tensor y = run(kernels::Reduce::max, x, d);
  const Tensor out = keep == Keep::yes ? y.reshape(d.kept_shape) : y;
  if (!needs_grad({&x, 1})) return out;
  return record("max", {x}, out,
                [x = Saved(x), y = Saved(y), kept = d.kept_shape, dims](const Tensor& dy) {
                  const Tensor top = equal(x.get("max"), y.get("max").reshape(kept)).to(DType::f32);
                  return Grads{top * (dy.reshape(kept) / sum(top, dims, Keep::yes))};
                });
}

Tensor argmax(const Tensor& x, int dim, Keep keep) {
  expect_dtype("argmax", "x", x, DType::f32);
  dim = wrap_dim("argmax", dim, x.rank());
  const int64_t n = x.shape()[dim], step = x.strides()[dim];
  if (n == 0) throw Error("argmax", "no elements to compare in " + to_string(x.shape()));
  Shape shape = x.shape(), strides = x.strides();
  shape.erase(shape.begin() + dim);
  strides.erase(strides.begin() + dim);
  Tensor y = empty_at(x, shape, DType::i64);
  on(x).argmax({shape, strides.data()}, {n, step}, raw(x), raw_ids(y));
  y = y.to(Device::cpu);
  if (keep == Keep::no) return y;
  shape.insert(shape.begin() + dim, 1);
  return y.reshape(shape);
}

}  // namespace fovea
