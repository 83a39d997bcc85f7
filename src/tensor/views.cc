#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "fovea/ops.h"
#include "kernels/copy.h"
#include "tensor/broadcast.h"
#include "tensor/impl.h"
#include "tensor/tape.h"

namespace fovea {

// Sorted by stride, each dimension must step past all that the smaller ones reach. (Sufficient.)
bool places_are_distinct(const Shape& shape, const Shape& strides) {
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0) return true;
    if (shape[d] > 1) dims.emplace_back(std::abs(strides[d]), shape[d]);
  }
  std::sort(dims.begin(), dims.end());
  int64_t reach = 0;
  for (const auto& [stride, size] : dims) {
    if (stride <= reach) return false;
    reach += stride * (size - 1);
  }
  return true;
}

Tensor view_of(const Tensor& x, Shape shape, Shape strides, int64_t offset) {
  auto impl = std::make_shared<TensorImpl>();
  const TensorImpl& from = *x.impl();
  if (from.scale) throw Error("view", "i8 weights have no views; take to(DType::f32)");
  impl->numel = numel_of("view", shape);
  impl->contiguous = strides_are_contiguous(shape, strides);
  impl->shape = std::move(shape);
  impl->strides = std::move(strides);
  impl->dtype = from.dtype;
  impl->data = from.data + offset * size_of(from.dtype);
  impl->storage = from.storage;
  return Tensor(std::move(impl));
}

namespace {

// How `shape` could lie over x's memory; false when it cannot without a copy.
bool reshaped_strides(const Tensor& x, const Shape& shape, Shape& strides) {
  if (x.is_contiguous()) {
    strides = contiguous_strides(shape);
    return true;
  }
  // Merge x into runs that lie as one, then cut each run into the new sizes.
  Shape sizes, steps;
  for (int d = 0; d < x.rank(); ++d) {
    const int64_t size = x.shape()[d], step = x.strides()[d];
    if (size == 1) continue;
    if (!sizes.empty() && steps.back() == step * size) {
      sizes.back() *= size;
      steps.back() = step;
    } else {
      sizes.push_back(size);
      steps.push_back(step);
    }
  }
  strides.assign(shape.size(), 1);
  size_t run = sizes.size();
  int64_t left = 1, step = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == 1) continue;
    if (left == 1) {
      if (run == 0) return false;
      --run;
      left = sizes[run];
      step = steps[run];
    }
    if (left % shape[d] != 0) return false;
    strides[d] = step;
    step *= shape[d];
    left /= shape[d];
  }
  return left == 1;
}

Shape fill_in(const Tensor& x, Shape shape) {
  const Shape asked = shape;
  int64_t known = 1;
  int unknown = -1;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == -1 && unknown < 0) {
      unknown = static_cast<int>(d);
    } else if (shape[d] < 0 || __builtin_mul_overflow(known, shape[d], &known)) {
      throw Error("reshape", "shape " + to_string(asked) + " is not possible");
    }
  }
  if (unknown >= 0) {
    if (known == 0) throw Error("reshape", "-1 is ambiguous in " + to_string(asked));
    shape[unknown] = x.numel() / known;
    known *= shape[unknown];
  }
  if (known != x.numel()) {
    throw Error("reshape", "shape " + to_string(x.shape()) + " has " + std::to_string(x.numel()) +
                               " elements, " + to_string(asked) + " cannot hold them");
  }
  return shape;
}

struct Reach {
  int64_t low, high;  // offsets of the lowest and highest element
};
Reach reach_of(const Shape& shape, const Shape& strides, int64_t offset) {
  Reach r{offset, offset};
  for (size_t d = 0; d < shape.size(); ++d) {
    const int64_t reach = (shape[d] - 1) * strides[d];
    (reach < 0 ? r.low : r.high) += reach;
  }
  return r;
}

void check_inside(const Tensor& x, const Shape& shape, const Shape& strides, int64_t offset) {
  const Reach r = reach_of(shape, strides, offset);
  const auto& storage = *x.impl()->storage;
  const int64_t element = size_of(x.dtype());
  const int64_t here = (x.impl()->data - static_cast<std::byte*>(storage.memory.get())) / element;
  if (here + r.low < 0 || here + r.high >= storage.bytes / element) {
    throw Error("as_strided", "sizes " + to_string(shape) + ", strides " + to_string(strides) +
                                  " and offset " + std::to_string(offset) +
                                  " leave the tensor's memory");
  }
}

// The view's gradient: each dy is added at its place in memory, in row-major order, and x reads
// its own places. Where several elements of x share a place, each gets its part.
Tensor scatter_view(const Tensor& dy, const Shape& x_shape, const Shape& x_strides,
                    const Shape& strides, int64_t offset) {
  const Reach own = reach_of(x_shape, x_strides, 0);
  const Reach view = reach_of(dy.shape(), strides, offset);
  const int64_t low = std::min(own.low, view.low), high = std::max(own.high, view.high);
  Tensor memory = zeros_at(dy, {high - low + 1});
  on(dy).strided_add(dy.shape(), {raw(dy), dy.strides().data()},
                     {raw(memory) + (offset - low), strides.data()});
  if (!places_are_distinct(x_shape, x_strides)) {
    const Tensor count = zeros_at(dy, memory.shape()), one = full_at(dy, {}, 1.0f).expand(x_shape);
    on(dy).strided_add(x_shape, {raw(one), one.strides().data()},
                       {raw(count) - low, x_strides.data()});
    memory = memory / maximum(count, full_at(dy, {}, 1.0f));
  }
  return view_of(memory, x_shape, x_strides, -low);
}

}  // namespace

Tensor Tensor::detach() const {
  expect_defined("detach", "the tensor", *this);
  auto impl = std::make_shared<TensorImpl>();
  impl->shape = impl_->shape;
  impl->strides = impl_->strides;
  impl->numel = impl_->numel;
  impl->data = impl_->data;
  impl->dtype = impl_->dtype;
  impl->contiguous = impl_->contiguous;
  impl->storage = impl_->storage;
  impl->scale = impl_->scale;
  return Tensor(std::move(impl));
}

Tensor Tensor::clone() const {
  expect_defined("clone", "the tensor", *this);
  Tensor y = empty(shape(), dtype(), device());
  on(*this).strided_copy(shape(), size_of(dtype()), {impl_->data, strides().data()},
                         {y.impl()->data, y.strides().data()});
  if (impl_->scale) y.impl()->scale = impl_->scale.clone();
  return record("clone", {*this}, y, [](const Tensor& dy) { return Grads{dy}; });
}

Tensor Tensor::contiguous() const {
  expect_defined("contiguous", "the tensor", *this);
  return is_contiguous() ? *this : clone();
}

Tensor Tensor::reshape(const Shape& asked) const {
  expect_defined("reshape", "the tensor", *this);
  Shape shape = fill_in(*this, asked);
  Shape strides;
  if (shape == impl_->shape) {
    strides = impl_->strides;
  } else if (numel() == 0) {
    strides = contiguous_strides(shape);
  } else if (!reshaped_strides(*this, shape, strides)) {
    return contiguous().reshape(shape);
  }
  return record("reshape", {*this}, view_of(*this, std::move(shape), std::move(strides), 0),
                [before = impl_->shape](const Tensor& dy) { return Grads{dy.reshape(before)}; });
}

Tensor Tensor::transpose(int a, int b) const {
  a = wrap_dim("transpose", a, rank());
  b = wrap_dim("transpose", b, rank());
  Shape shape = impl_->shape, strides = impl_->strides;
  std::swap(shape[a], shape[b]);
  std::swap(strides[a], strides[b]);
  return record("transpose", {*this}, view_of(*this, std::move(shape), std::move(strides), 0),
                [a, b](const Tensor& dy) { return Grads{dy.transpose(a, b)}; });
}

Tensor Tensor::permute(const std::vector<int>& order) const {
  const int n = rank();
  Shape new_shape(n), new_strides(n);
  std::vector<int> inverse(n, -1);
  for (size_t d = 0; d < order.size() && d < static_cast<size_t>(n); ++d) {
    const int from = wrap_dim("permute", order[d], n);
    new_shape[d] = impl_->shape[from];
    new_strides[d] = impl_->strides[from];
    inverse[from] = static_cast<int>(d);
  }
  if (static_cast<int>(order.size()) != n || std::count(inverse.begin(), inverse.end(), -1) != 0) {
    throw Error("permute",
                "the order must name each of the " + std::to_string(n) + " dimensions once");
  }
  return record("permute", {*this}, view_of(*this, std::move(new_shape), std::move(new_strides), 0),
                [inverse](const Tensor& dy) { return Grads{dy.permute(inverse)}; });
}

// Elements start, start+step, … before stop; start and stop count from the end when negative and
// are cut to the size; a negative step walks backwards (stop −1−size reaches the first element).
Tensor Tensor::slice(int dim, int64_t start, int64_t stop, int64_t step) const {
  dim = wrap_dim("slice", dim, rank());
  if (step == 0) throw Error("slice", "the step is 0");
  const int64_t size = impl_->shape[dim];
  if (start < 0) start += size;
  if (stop < 0) stop += size;
  const int64_t lowest = step > 0 ? 0 : -1, highest = step > 0 ? size : size - 1;
  start = std::clamp(start, lowest, highest);
  stop = std::clamp(stop, lowest, highest);
  const int64_t span = step > 0 ? stop - start : start - stop;
  const int64_t stride = step > 0 ? step : -step;
  const int64_t count = span <= 0 ? 0 : (span + stride - 1) / stride;
  Shape shape = impl_->shape, strides = impl_->strides;
  shape[dim] = count;
  const int64_t offset = count == 0 ? 0 : start * strides[dim];
  strides[dim] *= step;
  return record("slice", {*this}, view_of(*this, std::move(shape), std::move(strides), offset),
                [before = impl_->shape, dim, start, step, count](const Tensor& dy) {
                  Tensor dx = zeros_at(dy, before, dy.dtype());
                  if (count == 0) return Grads{dx};
                  Shape s = dx.strides();
                  const int64_t at = start * s[dim];
                  s[dim] *= step;
                  view_of(dx, dy.shape(), s, at).copy_(dy);
                  return Grads{dx};
                });
}

Tensor Tensor::select(int dim, int64_t index) const {
  dim = wrap_dim("select", dim, rank());
  const int64_t size = impl_->shape[dim];
  const int64_t i = index < 0 ? index + size : index;
  if (i < 0 || i >= size) {
    throw Error("select", "index " + std::to_string(index) + " of dimension " +
                              std::to_string(dim) + " in shape " + to_string(impl_->shape));
  }
  Shape shape = impl_->shape, strides = impl_->strides;
  const int64_t offset = i * strides[dim];
  shape.erase(shape.begin() + dim);
  strides.erase(strides.begin() + dim);
  return record("select", {*this}, view_of(*this, std::move(shape), std::move(strides), offset),
                [before = impl_->shape, dim, i](const Tensor& dy) {
                  Tensor dx = zeros_at(dy, before, dy.dtype());
                  dx.select(dim, i).copy_(dy);
                  return Grads{dx};
                });
}

Tensor Tensor::expand(const Shape& shape) const {
  expect_defined("expand", "the tensor", *this);
  const int lead = static_cast<int>(shape.size()) - rank();
  if (lead >= 0 && shape == impl_->shape) return *this;
  Shape strides(shape.size(), 0);
  bool fits = lead >= 0;
  for (int d = 0; fits && d < rank(); ++d) {
    const int64_t size = impl_->shape[d];
    fits = size == shape[lead + d] || size == 1;
    if (fits && size == shape[lead + d]) strides[lead + d] = impl_->strides[d];
  }
  if (!fits) {
    throw Error("expand",
                "shape " + to_string(impl_->shape) + " does not broadcast to " + to_string(shape));
  }
  numel_of("expand", shape);
  return record("expand", {*this}, view_of(*this, shape, std::move(strides), 0),
                [before = impl_->shape](const Tensor& dy) { return Grads{sum_to(dy, before)}; });
}

Tensor Tensor::squeeze(int dim) const {
  dim = wrap_dim("squeeze", dim, rank());
  if (impl_->shape[dim] != 1) {
    throw Error("squeeze", "dimension " + std::to_string(dim) + " of " + to_string(impl_->shape) +
                               " is not 1");
  }
  Shape shape = impl_->shape;
  shape.erase(shape.begin() + dim);
  return reshape(shape);
}

Tensor Tensor::unsqueeze(int dim) const {
  dim = wrap_dim("unsqueeze", dim, rank() + 1);
  Shape shape = this->shape();
  shape.insert(shape.begin() + dim, 1);
  return reshape(shape);
}

Tensor Tensor::as_strided(const Shape& shape, const Shape& strides, int64_t offset) const {
  expect_defined("as_strided", "the tensor", *this);
  if (shape.size() != strides.size()) {
    throw Error("as_strided", "sizes " + to_string(shape) + " and strides " + to_string(strides) +
                                  " differ in rank");
  }
  const int64_t n = numel_of("as_strided", shape);
  if (n > 0) check_inside(*this, shape, strides, offset);
  return record("as_strided", {*this}, view_of(*this, shape, strides, n == 0 ? 0 : offset),
                [before = impl_->shape, own = impl_->strides, strides, offset](const Tensor& dy) {
                  if (dy.numel() == 0) return Grads{zeros_at(dy, before)};
                  return Grads{scatter_view(dy, before, own, strides, offset)};
                });
}

}  // namespace fovea
