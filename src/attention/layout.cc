#include "attention/layout.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "fovea/ops.h"
#include "tensor/tape.h"

namespace fovea {
namespace {

std::vector<int> inverse_of(const std::vector<int>& order) {
  std::vector<int> inverse(order.size());
  for (size_t d = 0; d < order.size(); ++d) inverse[order[d]] = static_cast<int>(d);
  return inverse;
}

}  // namespace

std::vector<int> memory_order(const Tensor& t) {
  std::vector<int> order(t.rank());
  std::iota(order.begin(), order.end(), 0);
  const auto stride = [&](int d) { return std::abs(t.strides()[d]); };
  // A dimension of size 1 may have any stride: it stays where it is.
  std::vector<int> wide;
  for (int d = 0; d + 1 < t.rank(); ++d) {
    if (t.size(d) == 1) continue;
    if (stride(d) == 0) return order;
    wide.push_back(d);
  }
  std::vector<int> sorted = wide;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](int a, int b) { return stride(a) > stride(b); });
  for (size_t i = 0; i < wide.size(); ++i) order[wide[i]] = sorted[i];
  return order;
}

Tensor empty_in_order_of(const Tensor& like, const Shape& shape, DType dtype) {
  const std::vector<int> order = memory_order(like);
  Shape sizes;
  for (const int d : order) sizes.push_back(shape[d]);
  return Tensor::empty(sizes, dtype, default_device()).permute(inverse_of(order));
}

// dx = dy·w, dw = dyᵀ·x, db = Σ dy. Over the rows as they lie; of several heads in the order of
// their numbers, so that heads split off a sequence give the bits of heads apart.
Tensor project(const Tensor& x, const Tensor& w, const Tensor& b) {
  const auto product = [](const Tensor& rows, const Tensor& weight, const Tensor& bias) {
    if (rows.device() != Device::cpu) return linear(rows, weight, bias);  // one launch
    const Tensor y = matmul(rows, weight.transpose(0, 1));
    return bias ? y + bias : y;
  };
  if (x.is_contiguous()) return product(x, w, b);
  const std::vector<int> order = memory_order(x);
  const Tensor rows = x.detach().permute(order);
  if (!rows.is_contiguous()) return product(x, w, b);
  if (x.rank() < 4 || x.size(1) == 1) {
    return product(x.permute(order), w, b).permute(inverse_of(order));
  }
  const Tensor y = product(rows, w.detach(), b ? b.detach() : b).permute(inverse_of(order));
  const bool want_x = x.requires_grad(), want_w = w.requires_grad(), want_b = b.requires_grad();
  return record("project", {x, w, b}, y,
                [kept_x = Saved(x), kept_w = Saved(w), want_x, want_w, want_b](const Tensor& dy) {
                  const auto flat = [](const Tensor& t) { return t.reshape({-1, t.size(-1)}); };
                  Grads grads(3);
                  if (want_x) grads[0] = project(dy, kept_w.get("project").transpose(0, 1));
                  if (want_w) {
                    const Tensor left = flat(kept_x.get("project")).transpose(0, 1);
                    grads[1] = matmul(left, flat(dy)).transpose(0, 1);
                  }
                  if (want_b) grads[2] = sum(flat(dy), {0});
                  return grads;
                });
}

}  // namespace fovea
