#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "fovea/tensor.h"
#include "kernels/narrow.h"
#include "kernels/table.h"

namespace fovea {

struct Node;  // tensor/node.h

// Memory and how often it was changed in place.
struct Storage {
  std::shared_ptr<void> memory;
  int64_t bytes = 0;
  Device device = Device::cpu;
  std::atomic<uint64_t> version{0};
};

struct TensorImpl : std::enable_shared_from_this<TensorImpl> {
  Shape shape;
  Shape strides;
  int64_t numel = 0;
  std::byte* data = nullptr;  // the first element of this view
  DType dtype = DType::f32;
  bool contiguous = true;
  bool leaf_requires_grad = false;
  std::shared_ptr<Storage> storage;
  Tensor scale;                // of i8: [rows], what each row is multiplied by
  std::shared_ptr<Node> node;  // what made it; null on leaves
  Tensor grad;
};

// The product of the sizes; throws where one is negative or there are too many elements.
int64_t numel_of(const char* call, const Shape&);
Shape contiguous_strides(const Shape&);
bool strides_are_contiguous(const Shape& shape, const Shape& strides);

// Whether no two elements share a place. May say no where they do not.
bool places_are_distinct(const Shape& shape, const Shape& strides);

// A dimension counted from the end when negative, checked.
int wrap_dim(const char* call, int dim, int rank);

// Shares x's storage; off the tape.
Tensor view_of(const Tensor& x, Shape shape, Shape strides, int64_t offset);

// Throws unless t is defined and of this type: "[call] name is i64, expected f32".
void expect_defined(const char* call, const char* name, const Tensor& t);
void expect_dtype(const char* call, const char* name, const Tensor& t, DType);

// Throws unless all that are defined are on one device.
void expect_together(const char* call, std::initializer_list<const Tensor*>);

// New tensors where another is.
inline Tensor empty_at(const Tensor& where, const Shape& shape, DType dtype = DType::f32) {
  return Tensor::empty(shape, dtype, where.device());
}
Tensor zeros_at(const Tensor& where, const Shape&, DType = DType::f32);
Tensor full_at(const Tensor& where, const Shape&, float value);

// What computes it, where it is.
inline const kernels::Kernels& on(const Tensor& t) {
  return kernels::on(t.impl()->storage->device);
}

// Weights in fewer bits, as kernels take them: rows of the last dimension, next to each other.
inline bool is_narrow(DType t) { return is_weights(t) && t != DType::f32; }
kernels::Number number_of(DType);  // f32, bf16, f16, i8
kernels::WeightRows weight_rows(const Tensor&);
// to(), on the CPU; what it costs is added to `cost`.
Tensor narrowed(const Tensor&, DType, kernels::Narrowed& cost);
// Throws where the tensor's device does not compute with its type.
void expect_computed(const char* call, const char* name, const Tensor&);

// Numbers that are computed, not only kept: f32 everywhere, and bf16 where a device has kernels of
// it. Results and gradients of bf16 are bf16 there, gradients of weights f32.
bool computes_in(Device, DType);
inline bool is_bf16(const Tensor& t) { return t.dtype() == DType::bf16; }
inline const kernels::Bf16Kernels& bf16_on(const Tensor& t) { return *on(t).bf16; }
inline kernels::Bf16* raw_bf16(const Tensor& t) {
  return reinterpret_cast<kernels::Bf16*>(t.impl()->data);
}
kernels::Element element_of(DType);
// Throws unless t is f32 or what else its device computes in.
void expect_floats(const char* call, const char* name, const Tensor& t);

// Memory that the caller fills, without counting as an in-place change. Off the CPU, only what on()
// gives may read or write it.
inline float* raw(const Tensor& t) { return reinterpret_cast<float*>(t.impl()->data); }
inline float* raw_or_null(const Tensor& t, int64_t at = 0) { return t ? raw(t) + at : nullptr; }
inline int64_t* raw_ids(const Tensor& t) { return reinterpret_cast<int64_t*>(t.impl()->data); }
// The same for writing: counts as one.
inline float* changed(const Tensor& t) {
  t.impl()->storage->version.fetch_add(1, std::memory_order_relaxed);
  return raw(t);
}
inline uint8_t* raw_bools(const Tensor& t) { return reinterpret_cast<uint8_t*>(t.impl()->data); }

}  // namespace fovea
