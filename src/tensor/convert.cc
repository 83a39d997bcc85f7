#include "tensor/impl.h"

namespace fovea {
namespace {

template <class From, class To>
void convert(const From* from, To* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<To>(from[i]);
}

template <class To>
void convert_to(const Tensor& x, To* to) {
  if (x.dtype() == DType::f32) {
    convert(raw(x), to, x.numel());
  } else if (x.dtype() == DType::i64) {
    convert(raw_ids(x), to, x.numel());
  } else {
    convert(raw_bools(x), to, x.numel());
  }
}

struct Truth {  // a byte that is 0 or 1
  uint8_t byte;
  template <class T>
  explicit Truth(T x) : byte(x != T(0)) {}
};

}  // namespace

Tensor Tensor::to(DType dtype) const {
  expect_defined("to", "the tensor", *this);
  if (dtype == this->dtype()) return *this;
  const Tensor x = detach().contiguous();
  Tensor y = empty(shape(), dtype);
  if (dtype == DType::f32) {
    convert_to(x, raw(y));
  } else if (dtype == DType::i64) {
    convert_to(x, raw_ids(y));
  } else {
    convert_to(x, reinterpret_cast<Truth*>(raw_bools(y)));
  }
  return y;
}

}  // namespace fovea
