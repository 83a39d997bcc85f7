#include <algorithm>
#include <map>
#include <mutex>

#include "fovea/ops.h"
#include "tensor/impl.h"
#include "tensor/node.h"
#include "tensor/tape.h"

namespace fovea {
namespace {

// The gradients of a split's parts, written side by side into one tensor per backward pass,
// rather than into a padded tensor for each part. The first part to arrive passes the tensor on,
// the others only write; the split itself comes after all of them, and takes it.
struct Assembly {
  Shape shape;
  std::mutex mutex;
  std::map<uint64_t, Tensor> by_pass;

  // d part, at `start` along dim; defined when this is the pass's first.
  Tensor put(const Tensor& d_part, int dim, int64_t start) {
    const std::lock_guard lock(mutex);
    auto [it, first] = by_pass.try_emplace(current_pass());
    if (first) it->second = Tensor::zeros(shape);
    it->second.slice(dim, start, start + d_part.shape()[dim]).copy_(d_part);
    return first ? it->second : Tensor();
  }
  Tensor take(const Tensor& whole) {
    const std::lock_guard lock(mutex);
    by_pass.erase(current_pass());
    return whole;
  }
};

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
    starts.push_back(shape[dim]);
    shape[dim] += parts[i].shape()[dim];
  }
  Tensor y = Tensor::empty(shape, parts[0].dtype());
  for (size_t i = 0; i < parts.size(); ++i) {
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

std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int dim) {
  dim = wrap_dim("split", dim, x.rank());
  int64_t total = 0;
  for (const int64_t s : sizes) total += std::max<int64_t>(s, 0);
  if (total != x.shape()[dim] ||
      std::any_of(sizes.begin(), sizes.end(), [](int64_t s) { return s < 0; })) {
    throw Error("split", "sizes " + to_string(sizes) + " do not add up to dimension " +
                             std::to_string(dim) + " of " + to_string(x.shape()));
  }
  const bool recorded = needs_grad({&x, 1});
  auto assembly = std::make_shared<Assembly>();
  assembly->shape = x.shape();
  const Tensor whole = record("split", {x}, x.detach(),
                              [assembly](const Tensor& dx) { return Grads{assembly->take(dx)}; });
  std::vector<Tensor> parts;
  int64_t start = 0;
  for (const int64_t size : sizes) {
    Tensor part = whole.detach().slice(dim, start, start + size);
    parts.push_back(
        !recorded ? part
                  : record("split part", {whole}, part, [assembly, dim, start](const Tensor& dy) {
                      return Grads{assembly->put(dy, dim, start)};
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
  Tensor y = Tensor::full(shape, value);
  y.slice(dim, before, before + size).copy_(x);
  return record("pad", {x}, y, [dim, before, size](const Tensor& dy) {
    return Grads{dy.slice(dim, before, before + size)};
  });
}

}  // namespace fovea
