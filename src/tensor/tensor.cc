#include "fovea/tensor.h"

#include <algorithm>

#include "core/random.h"
#include "kernels/copy.h"
#include "kernels/elementwise.h"
#include "kernels/fill.h"
#include "tensor/impl.h"
#include "tensor/tape.h"

namespace fovea {
namespace {

// Where what is made of nothing is made.
Device place_of(DType dtype) { return dtype == DType::f32 ? default_device() : Device::cpu; }

Tensor make(const char* call, const Shape& shape, DType dtype, Device device) {
  auto impl = std::make_shared<TensorImpl>();
  impl->numel = numel_of(call, shape);
  impl->shape = shape;
  impl->strides = contiguous_strides(shape);
  impl->dtype = dtype;
  impl->storage = std::make_shared<Storage>();
  impl->storage->bytes = impl->numel * size_of(dtype);
  impl->storage->device = device;
  impl->storage->memory = kernels::allocate_on(device, static_cast<size_t>(impl->storage->bytes));
  impl->data = static_cast<std::byte*>(impl->storage->memory.get());
  if (dtype == DType::i8) {
    const int64_t cols = shape.empty() ? 1 : shape.back();
    impl->scale = make(call, {cols == 0 ? 0 : impl->numel / cols}, DType::f32, device);
  }
  return Tensor(std::move(impl));
}

// Offsets of the lowest and the highest element from the first, in elements.
struct Extent {
  int64_t low = 0, high = 0;
};

Extent extent_of(const char* call, const Shape& shape, const Shape& strides) {
  constexpr int64_t kFarthest = int64_t{1} << 58;
  Extent e;
  for (size_t d = 0; d < shape.size(); ++d) {
    int64_t reach = 0;
    if (shape[d] < 2) continue;
    if (__builtin_mul_overflow(shape[d] - 1, strides[d], &reach) || reach > kFarthest ||
        reach < -kFarthest) {
      throw Error(call, "strides " + to_string(strides) + " of shape " + to_string(shape) +
                            " reach too far");
    }
    (reach < 0 ? e.low : e.high) += reach;
  }
  return e;
}

template <class T>
Tensor copy_in(const char* call, std::span<const T> values, const Shape& shape, DType dtype) {
  Tensor t = make(call, shape, dtype, place_of(dtype));
  if (static_cast<int64_t>(values.size()) != t.numel()) {
    throw Error(call, std::to_string(values.size()) + " values for shape " + to_string(shape));
  }
  on(t).upload(t.impl()->data, values.data(), values.size_bytes());
  return t;
}

template <class T>
constexpr DType kTypeOf = DType::f32;
template <>
constexpr DType kTypeOf<int64_t> = DType::i64;
template <>
constexpr DType kTypeOf<uint8_t> = DType::boolean;

void expect_on_cpu(const char* call, const Tensor& t) {
  if (t.device() == Device::cpu) return;
  throw Error(call, std::string("the tensor is on ") + name_of(t.device()) +
                        ", where the host cannot read; take to(Device::cpu)");
}

// In place is for tensors off the tape, and each element must have a place of its own.
void begin_change(const char* call, const Tensor& t) {
  expect_defined(call, "the tensor", t);
  if (grad_enabled() && t.requires_grad()) {
    throw Error(call, "the tensor is on the tape; change it under NoGrad only");
  }
  if (!t.is_contiguous() && !places_are_distinct(t.shape(), t.strides())) {
    throw Error(call, "elements of the tensor share memory: strides " + to_string(t.strides()));
  }
  t.impl()->storage->version.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

int64_t size_of(DType t) {
  static constexpr int64_t kSizes[] = {4, 8, 1, 2, 2, 1};
  return kSizes[static_cast<int>(t)];
}

const char* name_of(DType t) {
  static constexpr const char* kNames[] = {"f32", "i64", "bool", "bf16", "f16", "i8"};
  return kNames[static_cast<int>(t)];
}

bool is_weights(DType t) { return t != DType::i64 && t != DType::boolean; }

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

int64_t numel_of(const char* call, const Shape& shape) {
  if (shape.size() > kernels::kMaxRank) {
    throw Error(call, "rank " + std::to_string(shape.size()) + " is more than 16");
  }
  int64_t n = 1;
  bool empty = false;
  for (const int64_t s : shape) {
    if (s < 0) throw Error(call, "a size is negative in shape " + to_string(shape));
    empty |= s == 0;
    if (s > 0 && __builtin_mul_overflow(n, s, &n)) n = INT64_MAX;
  }
  if (empty) return 0;
  if (n > (int64_t{1} << 58))
    throw Error(call, "shape " + to_string(shape) + " has too many elements");
  return n;
}

Shape contiguous_strides(const Shape& shape) {
  Shape strides(shape.size());
  int64_t n = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = n;
    if (shape[i] > 1 && __builtin_mul_overflow(n, shape[i], &n)) n = 1;  // an empty tensor's
  }
  return strides;
}

bool strides_are_contiguous(const Shape& shape, const Shape& strides) {
  int64_t n = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && strides[i] != n) return false;
    n *= shape[i];
  }
  return true;
}

int wrap_dim(const char* call, int dim, int rank) {
  const int d = dim < 0 ? dim + rank : dim;
  if (d < 0 || d >= rank) {
    throw Error(
        call, "dimension " + std::to_string(dim) + " of a tensor of rank " + std::to_string(rank));
  }
  return d;
}

void expect_defined(const char* call, const char* name, const Tensor& t) {
  if (!t) throw Error(call, std::string(name) + " is undefined");
}

void expect_dtype(const char* call, const char* name, const Tensor& t, DType dtype) {
  expect_defined(call, name, t);
  if (t.dtype() != dtype) {
    throw Error(call,
                std::string(name) + " is " + name_of(t.dtype()) + ", expected " + name_of(dtype));
  }
}

void expect_together(const char* call, std::initializer_list<const Tensor*> tensors) {
  const Tensor* first = nullptr;
  for (const Tensor* t : tensors) {
    if (!t->defined()) continue;
    if (first == nullptr) first = t;
    if (t->device() == first->device()) continue;
    throw Error(call, "tensors of shapes " + to_string(first->shape()) + " and " +
                          to_string(t->shape()) + " are on " + name_of(first->device()) + " and " +
                          name_of(t->device()) + "; bring them together with to()");
  }
}

bool computes_in(Device device, DType dtype) {
  return dtype == DType::f32 || (dtype == DType::bf16 && kernels::on(device).bf16 != nullptr);
}

kernels::Element element_of(DType t) {
  return t == DType::boolean ? kernels::Element::byte
         : t == DType::bf16  ? kernels::Element::bf16
                             : kernels::Element::f32;
}

void expect_floats(const char* call, const char* name, const Tensor& t) {
  expect_defined(call, name, t);
  if (!computes_in(t.device(), t.dtype())) expect_dtype(call, name, t, DType::f32);
}

Tensor zeros_at(const Tensor& where, const Shape& shape, DType dtype) {
  Tensor t = empty_at(where, shape, dtype);
  on(t).clear(raw(t), static_cast<size_t>(t.impl()->storage->bytes));
  return t;
}

Tensor full_at(const Tensor& where, const Shape& shape, float value) {
  Tensor t = empty_at(where, shape);
  on(t).fill(t.numel(), value, raw(t));
  return t;
}

Tensor Tensor::empty(const Shape& shape, DType dtype) {
  return make("empty", shape, dtype, place_of(dtype));
}
Tensor Tensor::empty(const Shape& shape, DType dtype, Device device) {
  return make("empty", shape, dtype, device);
}

Tensor Tensor::zeros(const Shape& shape, DType dtype) {
  Tensor t = make("zeros", shape, dtype, place_of(dtype));
  on(t).clear(t.impl()->data, static_cast<size_t>(t.impl()->storage->bytes));
  return t;
}

Tensor Tensor::full(const Shape& shape, float value) {
  Tensor t = make("full", shape, DType::f32, default_device());
  on(t).fill(t.numel(), value, raw(t));
  return t;
}

Tensor Tensor::scalar(float value) { return full({}, value); }

Tensor Tensor::from(std::span<const float> values, const Shape& shape) {
  return copy_in("from", values, shape, DType::f32);
}
Tensor Tensor::from(std::initializer_list<float> values, const Shape& shape) {
  return from(std::span<const float>(values.begin(), values.size()), shape);
}
Tensor Tensor::from_ids(std::span<const int64_t> values, const Shape& shape) {
  return copy_in("from_ids", values, shape, DType::i64);
}
Tensor Tensor::from_bools(std::span<const uint8_t> values, const Shape& shape) {
  Tensor t = copy_in("from_bools", values, shape, DType::boolean);
  kernels::truth_of(t.numel(), raw_bools(t), raw_bools(t));
  return t;
}

Tensor Tensor::arange(int64_t n) {
  Tensor t = make("arange", {n}, DType::i64, Device::cpu);
  kernels::count_up(n, raw_ids(t));
  return t;
}

Tensor Tensor::borrow(void* data, const Shape& shape, const Shape& strides,
                      std::shared_ptr<void> owner, DType dtype) {
  auto impl = std::make_shared<TensorImpl>();
  impl->numel = numel_of("borrow", shape);
  if (strides.size() != shape.size()) {
    throw Error("borrow", "strides " + to_string(strides) + " for shape " + to_string(shape));
  }
  if (data == nullptr && impl->numel > 0) {
    throw Error("borrow", "no memory for shape " + to_string(shape));
  }
  impl->shape = shape;
  impl->strides = strides;
  impl->dtype = dtype;
  impl->contiguous = strides_are_contiguous(shape, strides);
  impl->storage = std::make_shared<Storage>();
  impl->data = static_cast<std::byte*>(data);
  if (impl->numel > 0) {
    const Extent e = extent_of("borrow", shape, strides);
    impl->storage->bytes = (e.high - e.low + 1) * size_of(dtype);
    impl->storage->memory = {std::move(owner), impl->data + e.low * size_of(dtype)};
  }
  return Tensor(std::move(impl));
}

// Drawn by the CPU, the same numbers everywhere.
Tensor Tensor::randn(const Shape& shape, uint64_t seed) {
  Tensor t = make("randn", shape, DType::f32, Device::cpu);
  kernels::normal(random_key(seed, Purpose::tensor, 1), random_key(seed, Purpose::tensor, 2),
                  t.numel(), raw(t));
  return t.to(default_device());
}

Tensor Tensor::rand(const Shape& shape, uint64_t seed) {
  Tensor t = make("rand", shape, DType::f32, Device::cpu);
  kernels::uniform(random_key(seed, Purpose::tensor), t.numel(), raw(t));
  return t.to(default_device());
}

const Shape& Tensor::shape() const {
  expect_defined("shape", "the tensor", *this);
  return impl_->shape;
}
const Shape& Tensor::strides() const {
  expect_defined("strides", "the tensor", *this);
  return impl_->strides;
}
int64_t Tensor::size(int dim) const { return shape()[wrap_dim("size", dim, rank())]; }
int Tensor::rank() const { return static_cast<int>(shape().size()); }
int64_t Tensor::numel() const {
  expect_defined("numel", "the tensor", *this);
  return impl_->numel;
}
DType Tensor::dtype() const {
  expect_defined("dtype", "the tensor", *this);
  return impl_->dtype;
}
Device Tensor::device() const {
  expect_defined("device", "the tensor", *this);
  return impl_->storage->device;
}
bool Tensor::is_contiguous() const {
  expect_defined("is_contiguous", "the tensor", *this);
  return impl_->contiguous;
}
uint64_t Tensor::version() const {
  expect_defined("version", "the tensor", *this);
  return impl_->storage->version.load(std::memory_order_relaxed);
}

template <class T>
const T* Tensor::data() const {
  expect_dtype("data", "the tensor", *this, kTypeOf<T>);
  expect_on_cpu("data", *this);
  return reinterpret_cast<const T*>(impl_->data);
}
template <class T>
T* Tensor::mutable_data() {
  expect_dtype("mutable_data", "the tensor", *this, kTypeOf<T>);
  expect_on_cpu("mutable_data", *this);
  impl_->storage->version.fetch_add(1, std::memory_order_relaxed);
  return reinterpret_cast<T*>(impl_->data);
}
template const float* Tensor::data<float>() const;
template const int64_t* Tensor::data<int64_t>() const;
template const uint8_t* Tensor::data<uint8_t>() const;
template float* Tensor::mutable_data<float>();
template int64_t* Tensor::mutable_data<int64_t>();
template uint8_t* Tensor::mutable_data<uint8_t>();

float Tensor::item() const {
  expect_dtype("item", "the tensor", *this, DType::f32);
  if (numel() != 1) throw Error("item", "shape " + to_string(shape()) + " is not one element");
  float value = 0.0f;
  on(*this).download(&value, raw(*this), sizeof value);
  return value;
}

std::vector<float> Tensor::to_vector() const {
  expect_dtype("to_vector", "the tensor", *this, DType::f32);
  const Tensor c = detach().contiguous().to(Device::cpu);
  return {raw(c), raw(c) + c.numel()};
}

std::vector<int64_t> Tensor::to_ids() const {
  expect_dtype("to_ids", "the tensor", *this, DType::i64);
  const Tensor c = contiguous().to(Device::cpu);
  return {raw_ids(c), raw_ids(c) + c.numel()};
}

Tensor Tensor::to(Device device) const {
  expect_defined("to", "the tensor", *this);
  const Device here = this->device();
  if (device == here) return *this;
  const Tensor x = detach().contiguous();
  const Tensor y = empty(shape(), dtype(), device);
  if (x.impl()->scale) y.impl()->scale = x.impl()->scale.to(device);
  const auto bytes = static_cast<size_t>(y.impl()->storage->bytes);
  if (bytes > 0 && device == Device::cpu) {
    on(x).download(y.impl()->data, x.impl()->data, bytes);
  } else if (bytes > 0) {
    on(y).upload(y.impl()->data, x.impl()->data, bytes);
  }
  return record("to", {*this}, y, [here](const Tensor& dy) { return Grads{dy.to(here)}; });
}

Tensor& Tensor::copy_(const Tensor& source) {
  begin_change("copy_", *this);
  expect_dtype("copy_", "source", source, dtype());
  if (dtype() == DType::i8) throw Error("copy_", "i8 weights are made by to(), whole");
  const Tensor from = source.detach().to(device()).expand(shape());
  on(*this).strided_copy(shape(), size_of(dtype()), {from.impl()->data, from.strides().data()},
                         {impl_->data, strides().data()});
  return *this;
}

Tensor& Tensor::fill_(float value) {
  expect_dtype("fill_", "the tensor", *this, DType::f32);
  return copy_(full_at(*this, {}, value));
}

Tensor& Tensor::add_(const Tensor& other, float scale) {
  begin_change("add_", *this);
  expect_floats("add_", "the tensor", *this);
  expect_dtype("add_", "other", other, dtype());
  expect_together("add_", {this, &other});
  const Tensor from = other.detach().expand(shape());
  const kernels::Element type = element_of(dtype());
  on(*this).elementwise(
      kernels::Op::add_scaled, shape(),
      {{raw(*this), strides().data(), type}, {raw(from), from.strides().data(), type}},
      {raw(*this), strides().data(), type}, {scale});
  return *this;
}

Tensor& Tensor::mul_(float factor) {
  begin_change("mul_", *this);
  expect_floats("mul_", "the tensor", *this);
  const kernels::Element type = element_of(dtype());
  on(*this).elementwise(kernels::Op::affine, shape(), {{raw(*this), strides().data(), type}},
                        {raw(*this), strides().data(), type}, {factor, 0.0f});
  return *this;
}

}  // namespace fovea
