#include <algorithm>
#include <vector>

#include "fovea/ops.h"
#include "kernels/gemm.h"
#include "kernels/strided.h"
#include "tensor/broadcast.h"
#include "tensor/impl.h"
#include "tensor/tape.h"

namespace fovea {
namespace {

Shape leading(const Shape& shape) { return {shape.begin(), shape.end() - 2}; }

// Where each matrix of the batch starts, when x's leading dimensions are broadcast to `lead`.
std::vector<int64_t> starts(const Tensor& x, const Shape& lead) {
  const size_t own = x.shape().size() - 2, skip = lead.size() - own;
  Shape strides(lead.size(), 0);
  for (size_t d = 0; d < own; ++d) {
    if (x.shape()[d] == lead[skip + d]) strides[skip + d] = x.strides()[d];
  }
  std::vector<int64_t> at;
  const kernels::StridedLoop loop(lead, {strides.data()});
  at.reserve(loop.numel);
  loop.for_runs(0, loop.numel, [&](const int64_t* from, int64_t n) {
    for (int64_t i = 0; i < n; ++i) at.push_back(from[0] + i * loop.inner_stride(0));
  });
  return at;
}

// c[..] = a[..]·b[..], off the tape.
Tensor product(const Tensor& a, const Tensor& b) {
  const Shape lead = broadcast_shape("matmul", leading(a.shape()), leading(b.shape()));
  Shape shape = lead;
  shape.push_back(a.size(-2));
  shape.push_back(b.size(-1));
  Tensor c = empty_at(a, shape);
  kernels::Gemm g{.m = a.size(-2),
                  .n = b.size(-1),
                  .k = a.size(-1),
                  .a = raw(a),
                  .a_row = a.strides().end()[-2],
                  .a_col = a.strides().end()[-1],
                  .b = raw(b),
                  .b_row = b.strides().end()[-2],
                  .b_col = b.strides().end()[-1],
                  .c = raw(c),
                  .c_row = b.size(-1)};
  if (lead.empty()) {
    on(c).gemm(g);
    return c;
  }
  const std::vector<int64_t> a_at = starts(a, lead), b_at = starts(b, lead);
  g.batch = static_cast<int64_t>(a_at.size());
  g.a_at = a_at.data();
  g.b_at = b_at.data();
  g.c_step = g.m * g.n;
  on(c).gemm(g);
  return c;
}

}  // namespace

// c = a·b;  da = dc·bᵀ, db = aᵀ·dc
Tensor matmul(const Tensor& a, const Tensor& b) {
  expect_dtype("matmul", "a", a, DType::f32);
  expect_dtype("matmul", "b", b, DType::f32);
  const auto shapes = [&] {
    return "a is " + to_string(a.shape()) + ", b is " + to_string(b.shape());
  };
  if (a.rank() < 2 || b.rank() < 2) throw Error("matmul", "rank must be 2 or more: " + shapes());
  if (a.size(-1) != b.size(-2)) throw Error("matmul", "inner sizes differ: " + shapes());
  expect_together("matmul", {&a, &b});
  if (a.rank() > 2 && b.rank() == 2 && a.numel() > 0) {  // one large product
    Shape shape = a.shape();
    shape.back() = b.size(-1);
    return matmul(a.reshape({-1, a.size(-1)}), b).reshape(shape);
  }
  const Tensor c = product(a, b);
  const std::vector<Tensor> inputs{a, b};
  if (!needs_grad(inputs)) return c;
  const bool want_da = a.requires_grad(), want_db = b.requires_grad();
  return record("matmul", inputs, c,
                [ka = want_db ? Saved(a) : Saved(), kb = want_da ? Saved(b) : Saved(),
                 sa = a.shape(), sb = b.shape(), want_da, want_db](const Tensor& dc) {
                  Grads grads(2);
                  if (want_da) {
                    grads[0] = sum_to(product(dc, kb.get("matmul").transpose(-1, -2)), sa);
                  }
                  if (want_db) {
                    grads[1] = sum_to(product(ka.get("matmul").transpose(-1, -2), dc), sb);
                  }
                  return grads;
                });
}

}  // namespace fovea
