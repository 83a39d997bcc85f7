#include "arrays.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <string>

namespace nb = nanobind;

namespace fovea::python {
namespace {

struct TorchTypes {
  PyObject *f32 = nullptr, *i64 = nullptr, *boolean = nullptr;
} torch_types;

// "a list", "a numpy.ndarray of float64"
std::string described(nb::handle x) {
  const nb::handle type = x.type();
  const std::string module = nb::cast<std::string>(type.attr("__module__"));
  const std::string name = nb::cast<std::string>(type.attr("__name__"));
  std::string text = "a " + (module == "builtins" ? "" : module + ".") + name;
  if (!nb::hasattr(x, "dtype")) return text;
  const nb::object dtype = x.attr("dtype");
  return text + " of " + nb::str(dtype).c_str();
}

bool is_elsewhere(nb::handle x) {
  if (!nb::hasattr(x, "__dlpack_device__")) return false;
  const nb::object device = x.attr("__dlpack_device__")();
  return nb::cast<int>(nb::int_(nb::object(device[0]))) != nb::device::cpu::value;
}

[[noreturn]] void refuse(const char* call, const char* name, nb::handle x, const char* expected) {
  throw Error(call, std::string(name) + " is " + described(x) + ", expected " + expected);
}

constexpr const char* kArray =
    "an array of float32 (ids of int64, masks of bool): NumPy's, torch's or anything with DLPack";
constexpr const char* kHere = "one in this machine's memory: x.cpu()";

DType type_of(const char* call, const char* name, nb::handle x, const nb::dlpack::dtype& t) {
  if (t.lanes == 1 && t == nb::dtype<float>()) return DType::f32;
  if (t.lanes == 1 && t == nb::dtype<int64_t>()) return DType::i64;
  if (t.lanes == 1 && t == nb::dtype<bool>()) return DType::boolean;
  refuse(call, name, x, kArray);
}

nb::dlpack::dtype type_for(DType t) {
  return t == DType::f32   ? nb::dtype<float>()
         : t == DType::i64 ? nb::dtype<int64_t>()
                           : nb::dtype<bool>();
}

template <class Framework>
nb::object as(const Tensor& t) {
  const nb::capsule owner(new Tensor(t), [](void* p) noexcept { delete static_cast<Tensor*>(p); });
  const Shape& shape = t.shape();
  const std::vector<size_t> sizes(shape.begin(), shape.end());
  const nb::ndarray<Framework> array(
      const_cast<void*>(static_cast<const void*>(t.dtype() == DType::f32 ? t.data<float>()
                                                 : t.dtype() == DType::i64
                                                     ? (const void*)t.data<int64_t>()
                                                     : t.data<uint8_t>())),
      sizes.size(), sizes.data(), owner, t.strides().data(), type_for(t.dtype()));
  return nb::cast(array);
}

}  // namespace

Tensor take(const char* call, const char* name, nb::handle x) {
  nb::ndarray<nb::ro> array;
  if (!nb::try_cast(x, array, false)) {
    refuse(call, name, x, is_elsewhere(x) ? kHere : kArray);
  }
  if (array.device_type() != nb::device::cpu::value) refuse(call, name, x, kHere);
  const DType dtype = type_of(call, name, x, array.dtype());
  if (reinterpret_cast<uintptr_t>(array.data()) % static_cast<uintptr_t>(size_of(dtype)) != 0)
    refuse(call, name, x, "one whose numbers lie at multiples of their size: x.copy()");
  Shape shape, strides;
  for (size_t d = 0; d < array.ndim(); ++d) {
    shape.push_back(static_cast<int64_t>(array.shape(d)));
    strides.push_back(array.stride(d));
  }
  void* data = const_cast<void*>(array.data());
  auto owner = std::make_shared<nb::ndarray<nb::ro>>(std::move(array));
  return Tensor::borrow(data, shape, strides, std::move(owner), dtype);
}

void know_torch(nb::object f32, nb::object i64, nb::object boolean) {
  torch_types = {f32.release().ptr(), i64.release().ptr(), boolean.release().ptr()};
}

Tensor take_torch(const char* call, const char* name, nb::handle x) {
  const nb::object type = x.attr("dtype");
  DType dtype = DType::f32;
  if (type.ptr() == torch_types.i64) {
    dtype = DType::i64;
  } else if (type.ptr() == torch_types.boolean) {
    dtype = DType::boolean;
  } else if (type.ptr() != torch_types.f32) {
    refuse(call, name, x, "torch.float32 (ids of int64, masks of bool): x.float()");
  }
  if (!nb::cast<bool>(x.attr("is_cpu"))) refuse(call, name, x, kHere);
  Shape shape, strides;
  for (const nb::handle size : nb::tuple(x.attr("shape"))) shape.push_back(nb::cast<int64_t>(size));
  for (const nb::handle step : nb::tuple(x.attr("stride")()))
    strides.push_back(nb::cast<int64_t>(step));
  void* data = reinterpret_cast<void*>(nb::cast<uintptr_t>(x.attr("data_ptr")()));
  return Tensor::borrow(data, shape, strides, nullptr, dtype);
}

void translate_errors() {
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const Error& e) {
      PyErr_SetString(PyExc_ValueError, e.what());
    }
  });
}

nb::object give(const Tensor& t, Kind kind) {
  if (kind == Kind::numpy) return as<nb::numpy>(t);
  if (kind == Kind::torch) return as<nb::pytorch>(t);
  return as<nb::array_api>(t);
}

}  // namespace fovea::python
