#include "kernels/fill.h"
#include "kernels/narrow.h"
#include "tensor/bytes.h"
#include "tensor/impl.h"
#include "tensor/tape.h"

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

// Off the CPU: floats and masks there, and bf16 where it is computed with; others by way of the
// host; ids stay there.
Tensor convert_there(const Tensor& x, DType dtype) {
  const bool narrows = x.dtype() == DType::f32 && dtype == DType::bf16;
  if ((narrows || (is_bf16(x) && dtype == DType::f32)) && computes_in(x.device(), DType::bf16)) {
    const Tensor y = empty_at(x, x.shape(), dtype);
    if (narrows) {
      bf16_on(x).narrow(x.numel(), raw(x), raw_bf16(y));
    } else {
      bf16_on(x).widen(x.numel(), raw_bf16(x), raw(y));
    }
    return y;
  }
  const auto by_host = [](DType t) { return t != DType::f32 && t != DType::boolean; };
  if (by_host(x.dtype()) || by_host(dtype)) {
    const DefaultDevice host(Device::cpu);
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

// Results on the tape may be any of these; their gradients are f32, but of bf16 that is computed
// with.
bool has_gradient(DType t) { return t == DType::f32 || t == DType::bf16 || t == DType::f16; }

int64_t rows_of(const Tensor& x) {
  const int64_t cols = x.rank() == 0 ? 1 : x.size(-1);
  return cols == 0 ? 0 : x.numel() / cols;
}

// Of weights, on the CPU.
Tensor widened(const Tensor& x) {
  const Tensor y = Tensor::empty(x.shape(), DType::f32, Device::cpu);
  kernels::widen_rows(weight_rows(x), nullptr, rows_of(x), raw(y));
  return y;
}

}  // namespace

std::byte* bytes_of(const Tensor& t) { return t.impl()->data; }

kernels::Number number_of(DType t) {
  using kernels::Number;
  return t == DType::bf16  ? Number::bf16
         : t == DType::f16 ? Number::f16
         : t == DType::i8  ? Number::i8
                           : Number::f32;
}

kernels::WeightRows weight_rows(const Tensor& t) {
  const int64_t cols = t.rank() == 0 ? 1 : t.size(-1);
  const Tensor& scale = t.impl()->scale;
  return {t.impl()->data, number_of(t.dtype()), scale ? raw(scale) : nullptr, cols,
          t.rank() < 2 || t.is_contiguous() ? cols : t.strides().end()[-2]};
}

Tensor narrowed(const Tensor& x, DType dtype, kernels::Narrowed& cost) {
  const Tensor from = x.detach().contiguous(), y = Tensor::empty(x.shape(), dtype, Device::cpu);
  const Tensor& scale = y.impl()->scale;
  const kernels::Narrowed own =
      kernels::narrow_rows(weight_rows(from), rows_of(from), number_of(dtype), y.impl()->data,
                           scale ? raw(scale) : nullptr);
  cost.lost += own.lost;
  cost.all += own.all;
  return y;
}

void expect_computed(const char* call, const char* name, const Tensor& t) {
  const auto takes = on(t).takes;
  if (t.dtype() == DType::f32 || (takes != nullptr && takes(number_of(t.dtype())))) return;
  throw Error(call, std::string(name) + " is " + name_of(t.dtype()) + ", which " +
                        fovea::name_of(t.device()) + " does not compute with; take to(DType::f32)");
}

// Floats made of ids and masks of the host are where floats are made.
Tensor Tensor::to(DType dtype) const {
  expect_defined("to", "the tensor", *this);
  if (dtype == this->dtype()) return *this;
  if (requires_grad() && grad_enabled() && has_gradient(dtype)) {
    const DType before = computes_in(device(), this->dtype()) ? this->dtype() : DType::f32;
    return record("to", {*this}, detach().to(dtype),
                  [before](const Tensor& dy) { return Grads{dy.to(before)}; });
  }
  const Tensor x = detach().contiguous();
  if (device() != Device::cpu) return convert_there(x, dtype);
  if (x.dtype() == DType::f32 && (dtype == DType::bf16 || dtype == DType::f16)) {
    const Tensor y = empty(shape(), dtype, Device::cpu);
    kernels::narrow_numbers(raw(x), x.numel(), number_of(dtype), y.impl()->data);
    return y;
  }
  if (is_weights(x.dtype()) && is_narrow(dtype)) {
    kernels::Narrowed cost;
    return narrowed(x, dtype, cost);
  }
  if (is_narrow(x.dtype())) return widened(x).to(dtype);
  if (is_narrow(dtype)) return to(DType::f32).to(dtype);
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
