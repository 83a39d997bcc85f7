#include "kernels/lookup.h"

#include "fovea/ops.h"
#include "tensor/impl.h"
#include "tensor/tape.h"

namespace fovea {
namespace {

kernels::Middle middle_of(const Shape& shape, int dim) {
  kernels::Middle m;
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
    (d < dim ? m.outer : d == dim ? m.size : m.inner) *= d == dim ? 1 : shape[d];
  }
  m.size = shape[dim];
  return m;
}

// Dense, on the CPU, and every id inside 0 … size−1.
Tensor checked_ids(const char* call, const Tensor& ids, int64_t size) {
  expect_dtype(call, "ids", ids, DType::i64);
  Tensor dense = ids.to(Device::cpu).contiguous();
  const int64_t* all = raw_ids(dense);
  const int64_t at = kernels::first_outside(all, dense.numel(), size);
  if (at < dense.numel()) {
    throw Error(call, "id " + std::to_string(all[at]) + " at position " + std::to_string(at) +
                          " is not in 0 … " + std::to_string(size - 1));
  }
  return dense;
}

// y[.., i, ..] = x[.., ids[i], ..]; dx[.., ids[i], ..] += dy[.., i, ..]
Tensor take(const char* call, const Tensor& x, int dim, const Tensor& ids) {
  expect_dtype(call, "x", x, DType::f32);
  const Tensor dense = checked_ids(call, ids, x.shape()[dim]).to(x.device());
  const kernels::Middle m = middle_of(x.shape(), dim);
  Shape shape = x.shape();
  shape[dim] = dense.numel();
  Tensor y = empty_at(x, shape);
  on(y).take_rows(m, raw_ids(dense), dense.numel(), raw(x.detach().contiguous()), raw(y));
  return record(call, {x}, y, [call, m, before = x.shape(), ids = Saved(dense)](const Tensor& dy) {
    Tensor dx = zeros_at(dy, before);
    const Tensor& at = ids.get(call);
    on(dx).add_rows(m, raw_ids(at), at.numel(), raw(dy.contiguous()), raw(dx));
    return Grads{dx};
  });
}

void expect_along(const char* call, const Tensor& x, int dim, const Tensor& ids) {
  expect_dtype(call, "x", x, DType::f32);
  expect_dtype(call, "ids", ids, DType::i64);
  Shape expected = x.shape();
  if (ids.rank() == x.rank()) expected[dim] = ids.shape()[dim];
  if (ids.shape() != expected) {
    throw Error(call, "ids is " + to_string(ids.shape()) + ", expected x's sizes " +
                          to_string(x.shape()) + " except along dimension " + std::to_string(dim));
  }
}

}  // namespace

namespace {

// Rows of a table that is kept in fewer bits; nobody learns it.
Tensor take_weights(const Tensor& table, const Tensor& ids) {
  expect_computed("embedding", "table", table);
  const Tensor dense = checked_ids("embedding", ids, table.size(0)).to(table.device());
  const Tensor y = empty_at(table, {dense.numel(), table.size(1)});
  on(y).widen_rows(weight_rows(table), raw_ids(dense), dense.numel(), raw(y));
  return y;
}

}  // namespace

Tensor embedding(const Tensor& table, const Tensor& ids) {
  expect_defined("embedding", "table", table);
  const bool narrow = is_narrow(table.dtype());
  if (!narrow) expect_dtype("embedding", "table", table, DType::f32);
  if (table.rank() != 2) {
    throw Error("embedding", "table is " + to_string(table.shape()) + ", expected [V,D]");
  }
  expect_dtype("embedding", "ids", ids, DType::i64);
  Shape shape = ids.shape();
  shape.push_back(table.size(1));
  return (narrow ? take_weights(table, ids) : take("embedding", table, 0, ids)).reshape(shape);
}

namespace {

// index_select() of ids, which need no gradient.
Tensor take_ids(const Tensor& x, int dim, const Tensor& ids) {
  const Tensor dense = checked_ids("index_select", ids, x.shape()[dim]),
               from = x.to(Device::cpu).contiguous();
  const kernels::Middle m = middle_of(x.shape(), dim);
  Shape shape = x.shape();
  const int64_t n = shape[dim] = ids.numel();
  Tensor y = Tensor::empty(shape, DType::i64);
  kernels::take_rows(m, raw_ids(dense), n, raw_ids(from), raw_ids(y));
  return y;
}

}  // namespace

Tensor index_select(const Tensor& x, int dim, const Tensor& ids) {
  expect_dtype("index_select", "ids", ids, DType::i64);
  if (ids.rank() != 1) {
    throw Error("index_select", "ids is " + to_string(ids.shape()) + ", expected rank 1");
  }
  dim = wrap_dim("index_select", dim, x.rank());
  return x.dtype() == DType::i64 ? take_ids(x, dim, ids) : take("index_select", x, dim, ids);
}

// dx[.., ids, ..] += dy
Tensor gather(const Tensor& x, int dim, const Tensor& ids) {
  dim = wrap_dim("gather", dim, x.rank());
  expect_along("gather", x, dim, ids);
  const Tensor dense = checked_ids("gather", ids, x.shape()[dim]).to(x.device());
  const kernels::Middle m = middle_of(x.shape(), dim);
  Tensor y = empty_at(x, ids.shape());
  on(y).take_along(m, raw_ids(dense), ids.shape()[dim], raw(x.detach().contiguous()), raw(y));
  return record("gather", {x}, y,
                [m, dim, before = x.shape(), ids = Saved(dense)](const Tensor& dy) {
                  Tensor dx = zeros_at(dy, before);
                  const Tensor& at = ids.get("gather");
                  on(dx).add_along(m, raw_ids(at), at.shape()[dim], raw(dy.contiguous()), raw(dx));
                  return Grads{dx};
                });
}

// dx = dy, d source = dy[.., ids, ..]
Tensor scatter_add(const Tensor& x, int dim, const Tensor& ids, const Tensor& source) {
  dim = wrap_dim("scatter_add", dim, x.rank());
  expect_along("scatter_add", x, dim, ids);
  expect_dtype("scatter_add", "source", source, DType::f32);
  if (source.shape() != ids.shape()) {
    throw Error("scatter_add",
                "source is " + to_string(source.shape()) + ", ids is " + to_string(ids.shape()));
  }
  expect_together("scatter_add", {&x, &source});
  const Tensor dense = checked_ids("scatter_add", ids, x.shape()[dim]), at = dense.to(x.device());
  Tensor y = x.detach().clone();
  on(y).add_along(middle_of(x.shape(), dim), raw_ids(at), ids.shape()[dim],
                  raw(source.detach().contiguous()), raw(y));
  return record("scatter_add", {x, source}, y, [dim, ids = Saved(dense)](const Tensor& dy) {
    return Grads{dy, gather(dy, dim, ids.get("scatter_add"))};
  });
}

}  // namespace fovea
