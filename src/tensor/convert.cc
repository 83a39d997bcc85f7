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

// Off the CPU: floats and masks there, ids by way of the host, where they stay.
Tensor convert_there(const Tensor& x, DType dtype) {
  if (x.dtype() == DType::i64 || dtype == DType::i64) {
    const Tensor y = x.to(Device::cpu).to(dtype);
    return dtype == DType::i64 ? y : y.to(x.device());
  }
  const Tensor y = empty_at(x, x.shape(), dtype);
  if (dtype == DType::f32) {
    on(x).to_floats(x.numel(), raw_bools(x), raw(y));
  } else {
    on(x).truth_of(x.numel(), raw(x), raw_bools(y));
  }
  return y;
}

}  // namespace

// Floats made of ids and masks of the host are where floats are made.
Tensor Tensor::to(DType dtype) const {
  expect_defined("to", "the tensor", *this);
  if (dtype == this->dtype()) return *this;
  const Tensor x = detach().contiguous();
  if (device() != Device::cpu) return convert_there(x, dtype);
  Tensor y = empty(shape(), dtype, Device::cpu);
  if (x.dtype() == DType::f32) {
    convert(raw(x), y);
  } else if (x.dtype() == DType::i64) {
    convert(raw_ids(x), y);
  } else {
    convert(raw_bools(x), y);
  }
  return dtype == DType::f32 ? y.to(default_device()) : y;
}

}  // namespace fovea
