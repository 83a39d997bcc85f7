#include "kernels/fill.h"
#include "tensor/impl.h"

namespace fovea {
namespace {

template <class From>
void convert(const From* from, const Tensor& y) {
  const int64_t n = y.numel();
  if (y.dtype() == DType::f32) {
    kernels::convert(n, from, raw(y));
  } else if (y.dtype() == DType::i64) {
    kernels::convert(n, from, raw_ids(y));
  } else {
    kernels::truth_of(n, from, raw_bools(y));
  }
}

}  // namespace

Tensor Tensor::to(DType dtype) const {
  expect_defined("to", "the tensor", *this);
  if (dtype == this->dtype()) return *this;
  const Tensor x = detach().contiguous();
  Tensor y = empty(shape(), dtype);
  if (x.dtype() == DType::f32) {
    convert(raw(x), y);
  } else if (x.dtype() == DType::i64) {
    convert(raw_ids(x), y);
  } else {
    convert(raw_bools(x), y);
  }
  return y;
}

}  // namespace fovea
