#include <algorithm>

#include "fovea/ops.h"
#include "tensor/impl.h"
#include "tensor/tape.h"

namespace fovea {
namespace {

// In one call, where the device has it and every part lies whole in y from a place on.
bool copied_whole(const std::vector<Tensor>& parts, int dim, const Tensor& y) {
  if (parts.size() < 2 || on(y).copy_all == nullptr) return false;
  for (int d = 0; d < dim; ++d) {
    if (y.size(d) != 1) return false;
  }
  std::vector<kernels::Copy> copies;
  std::byte* to = y.impl()->data;
  for (const Tensor& t : parts) {
    if (!t.is_contiguous() || t.device() != y.device()) return false;
    const int64_t bytes = t.numel() * size_of(t.dtype());
    copies.push_back({t.impl()->data, to, bytes});
    to += bytes;
  }
  on(y).copy_all(copies);
  return true;
}

}  // namespace

Tensor concatenate(const std::vector<Tensor>& parts, int dim) {
  if (parts.empty()) throw Error("concatenate", "no parts");
  expect_defined("concatenate", "part 0", parts[0]);
  dim = wrap_dim("concatenate", dim, parts[0].rank());
  Shape shape = parts[0].shape();
  shape[dim] = 0;
  std::vector<int64_t> starts;
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string name = "part " + std::to_string(i);
    expect_dtype("concatenate", name.c_str(), parts[i], parts[0].dtype());
    Shape expected = shape;
    if (parts[i].rank() == static_cast<int>(shape.size())) expected[dim] = parts[i].shape()[dim];
    if (parts[i].shape() != expected) {
      throw Error("concatenate", name + " is " + to_string(parts[i].shape()) + ", part 0 is " +
                                     to_string(parts[0].shape()) + ": they may differ along " +
                                     std::to_string(dim) + " alone");
    }
    if (parts[i].dtype() == DType::f32) expect_together("concatenate", {&parts[0], &parts[i]});
    starts.push_back(shape[dim]);
    shape[dim] += parts[i].shape()[dim];
  }
  Tensor y = empty_at(parts[0], shape, parts[0].dtype());
  const bool whole = copied_whole(parts, dim, y);
  for (size_t i = 0; i < parts.size() && !whole; ++i) {
    y.slice(dim, starts[i], starts[i] + parts[i].shape()[dim]).copy_(parts[i]);
  }
  starts.push_back(shape[dim]);
  return record("concatenate", parts, y, [starts, dim](const Tensor& dy) {
    Grads grads;
    for (size_t i = 0; i + 1 < starts.size(); ++i) {
      grads.push_back(dy.slice(dim, starts[i], starts[i + 1]));
    }
    return grads;
  });
}

Tensor stack(const std::vector<Tensor>& parts, int dim) {
  if (parts.empty()) throw Error("stack", "no parts");
  std::vector<Tensor> rows;
  for (const Tensor& t : parts) rows.push_back(t.unsqueeze(dim));
  return concatenate(rows, dim);
}

// The parts' gradients are written side by side into one tensor as they come, rather than each into
// a padded one, to be added.
std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int dim) {
  dim = wrap_dim("split", dim, x.rank());
  int64_t total = 0;
  for (const int64_t s : sizes) total += std::max<int64_t>(s, 0);
  if (total != x.shape()[dim] ||
      std::any_of(sizes.begin(), sizes.end(), [](int64_t s) { return s < 0; })) {
    throw Error("split", "sizes " + to_string(sizes) + " do not add up to dimension " +
                             std::to_string(dim) + " of " + to_string(x.shape()));
  }
  const Deferred<Tensor> whole("split", {x}, [](const Tensor& dx) { return Grads{dx}; });
  std::vector<Tensor> parts;
  int64_t start = 0;
  for (const int64_t size : sizes) {
    const Tensor part = x.detach().slice(dim, start, start + size);
    parts.push_back(whole.use("split", {}, part,
                              [shape = x.shape(), dim, start, size](const Tensor& dy, Tensor* dx) {
                                if (!*dx) *dx = zeros_at(dy, shape, dy.dtype());
                                dx->slice(dim, start, start + size).copy_(dy);
                                return Grads{};
                              }));
    start += size;
  }
  return parts;
}

std::vector<Tensor> unbind(const Tensor& x, int dim) {
  dim = wrap_dim("unbind", dim, x.rank());
  std::vector<Tensor> parts = split(x, std::vector<int64_t>(x.shape()[dim], 1), dim);
  for (Tensor& t : parts) t = t.squeeze(dim);
  return parts;
}

// dx = dy without its margins
Tensor pad(const Tensor& x, int dim, int64_t before, int64_t after, float value) {
  expect_dtype("pad", "x", x, DType::f32);
  dim = wrap_dim("pad", dim, x.rank());
  if (before < 0 || after < 0) {
    throw Error("pad", "margins " + std::to_string(before) + " and " + std::to_string(after) +
                           " must not be negative");
  }
  const int64_t size = x.shape()[dim];
  Shape shape = x.shape();
  shape[dim] += before + after;
  Tensor y = full_at(x, shape, value);
  y.slice(dim, before, before + size).copy_(x);
  return record("pad", {x}, y, [dim, before, size](const Tensor& dy) {
    return Grads{dy.slice(dim, before, before + size)};
  });
}

}  // namespace fovea
