#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

#include "fovea/tensor.h"

// Python's arrays as tensors and back, without a copy.
namespace fovea::python {

// Whose arrays the answers are: NumPy's, PyTorch's, or whoever can take DLPack.
enum class Kind : uint8_t { numpy, torch, dlpack };

// An array that has memory of this machine: NumPy's, or anything with DLPack. The tensor keeps it
// alive. Throws Error(call, "NAME is …, expected …") for whatever else.
Tensor take(const char* call, const char* name, nanobind::handle array);

// A tensor of PyTorch's, with a gradient or without. It must outlive what is returned.
Tensor take_torch(const char* call, const char* name, nanobind::handle tensor);
// What take_torch() compares with, kept for good: torch.float32, torch.int64, torch.bool, and
// torch.Tensor.__dlpack_c_exchange_api__ or, where torch has none, None.
void know_torch(nanobind::object f32, nanobind::object i64, nanobind::object boolean,
                nanobind::object exchange);

// The array owns the tensor.
nanobind::object give(const Tensor&, Kind);

// Error is ValueError, with its sentence.
void translate_errors();

}  // namespace fovea::python
