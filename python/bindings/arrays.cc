#include "arrays.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <string>

#include "dlpack.h"

namespace nb = nanobind;

namespace fovea::python {
namespace {

struct Torch {
  PyObject *f32 = nullptr, *i64 = nullptr, *boolean = nullptr;
  const dlpack::Exchange* exchange = nullptr;  // not before 2.10
} torch;

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

void* address_of(const Tensor& t) {
  const void* data = t.dtype() == DType::f32   ? static_cast<const void*>(t.data<float>())
                     : t.dtype() == DType::i64 ? static_cast<const void*>(t.data<int64_t>())
                                               : static_cast<const void*>(t.data<uint8_t>());
  return const_cast<void*>(data);
}

template <class Framework>
nb::object as(const Tensor& t) {
  const nb::capsule owner(new Tensor(t), [](void* p) noexcept { delete static_cast<Tensor*>(p); });
  const Shape& shape = t.shape();
  const std::vector<size_t> sizes(shape.begin(), shape.end());
  const nb::ndarray<Framework> array(address_of(t), sizes.size(), sizes.data(), owner,
                                     t.strides().data(), type_for(t.dtype()));
  return nb::cast(array);
}

// ---- NumPy, by its table of functions in C: 0.2 µs out instead of 1 ----------------------------

// What is called of it; places in the table, and numbers of types, are the same in NumPy 1 and 2.
struct Numpy {
  PyTypeObject* array = nullptr;
  PyObject* (*make)(PyTypeObject*, int rank, const intptr_t* sizes, int type, const intptr_t* steps,
                    void* data, int size, int flags, PyObject* like) = nullptr;
  int (*own)(PyObject* array, PyObject* owner) = nullptr;  // takes the reference

  Numpy() {
    for (const char* module : {"numpy._core.multiarray", "numpy.core.multiarray"}) {
      PyObject* found = PyImport_ImportModule(module);
      PyObject* table = found ? PyObject_GetAttrString(found, "_ARRAY_API") : nullptr;
      Py_XDECREF(found);  // it is in sys.modules
      void** functions =
          table ? static_cast<void**>(PyCapsule_GetPointer(table, nullptr)) : nullptr;
      Py_XDECREF(table);
      PyErr_Clear();
      if (functions == nullptr) continue;
      array = static_cast<PyTypeObject*>(functions[2]);
      make = reinterpret_cast<decltype(make)>(functions[93]);
      own = reinterpret_cast<decltype(own)>(functions[282]);
      return;
    }
  }
};

nb::object as_numpy(const Tensor& t) {
  constexpr int kFloat = 11, kLong = 7, kBool = 0, kAlignedAndWriteable = 0x100 | 0x400;
  // Not a static's own guard: the import may hand the GIL to a thread that would wait there with
  // it.
  static const Numpy* known = nullptr;
  if (known == nullptr) known = new Numpy;
  const Numpy& numpy = *known;
  if (numpy.make == nullptr) return as<nb::numpy>(t);
  const Shape& shape = t.shape();
  const std::vector<intptr_t> sizes(shape.begin(), shape.end());
  std::vector<intptr_t> steps(t.strides().begin(), t.strides().end());
  for (intptr_t& step : steps) step *= static_cast<intptr_t>(size_of(t.dtype()));
  const int type = t.dtype() == DType::f32 ? kFloat : t.dtype() == DType::i64 ? kLong : kBool;
  PyObject* made = numpy.make(numpy.array, static_cast<int>(sizes.size()), sizes.data(), type,
                              steps.data(), address_of(t), 0, kAlignedAndWriteable, nullptr);
  if (made == nullptr) throw nb::python_error();
  nb::object array = nb::steal(made);
  nb::capsule owner(new Tensor(t), [](void* p) noexcept { delete static_cast<Tensor*>(p); });
  if (numpy.own(made, owner.release().ptr()) != 0) throw nb::python_error();
  return array;
}

// ---- PyTorch, by the exchange in C: 0.1 µs in and 0.5 out, instead of 1 and 5 ------------------

// A tensor, and DLPack's view of it; torch frees both, with the GIL or without.
struct Exported {
  Tensor tensor;
  dlpack::Managed managed;
};

nb::object lend(const Tensor& t) {
  auto exported = std::make_unique<Exported>(Exported{t, {}});
  const Shape &shape = exported->tensor.shape(), &strides = exported->tensor.strides();
  exported->managed = {
      .version = {1, 0},
      .context = exported.get(),
      .deleter = [](dlpack::Managed* m) { delete static_cast<Exported*>(m->context); },
      .flags = 0,
      .tensor = {.data = address_of(t),
                 .device = {nb::device::cpu::value, 0},
                 .ndim = static_cast<int32_t>(shape.size()),
                 .dtype = type_for(t.dtype()),
                 .shape = const_cast<int64_t*>(shape.data()),
                 .strides = const_cast<int64_t*>(strides.data())}};
  void* object = nullptr;
  if (torch.exchange->to_object(&exported->managed, &object) != 0) throw nb::python_error();
  exported.release();
  return nb::steal(static_cast<PyObject*>(object));
}

// Nothing where torch has no such view of it, or the engine no such tensor.
Tensor shown(nb::handle x) {
  nb::dlpack::dltensor view;
  if (torch.exchange->from_object(x.ptr(), &view) != 0) {
    PyErr_Clear();
    return {};
  }
  const bool f32 = view.dtype == nb::dtype<float>(), i64 = view.dtype == nb::dtype<int64_t>();
  if (view.device.device_type != nb::device::cpu::value) return {};
  if (!f32 && !i64 && view.dtype != nb::dtype<bool>()) return {};
  return Tensor::borrow(static_cast<std::byte*>(view.data) + view.byte_offset,
                        Shape(view.shape, view.shape + view.ndim),
                        Shape(view.strides, view.strides + view.ndim), nullptr,
                        f32   ? DType::f32
                        : i64 ? DType::i64
                              : DType::boolean);
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
  const int64_t *sizes = array.shape_ptr(), *steps = array.stride_ptr();
  const Shape shape(sizes, sizes + array.ndim()), strides(steps, steps + array.ndim());
  void* data = const_cast<void*>(array.data());
  auto owner = std::make_shared<nb::ndarray<nb::ro>>(std::move(array));
  return Tensor::borrow(data, shape, strides, std::move(owner), dtype);
}

void know_torch(nb::object f32, nb::object i64, nb::object boolean, nb::object exchange) {
  torch = {f32.release().ptr(), i64.release().ptr(), boolean.release().ptr(), nullptr};
  if (!PyCapsule_IsValid(exchange.ptr(), dlpack::kExchange)) return;
  const auto* newest =
      static_cast<const dlpack::Exchange*>(PyCapsule_GetPointer(exchange.ptr(), dlpack::kExchange));
  while (newest != nullptr && newest->version.major > 1) newest = newest->older;
  if (newest != nullptr && newest->from_object != nullptr) torch.exchange = newest;
}

Tensor take_torch(const char* call, const char* name, nb::handle x) {
  if (torch.exchange != nullptr) {
    if (Tensor t = shown(x)) return t;
  }
  const nb::object type = x.attr("dtype");
  DType dtype = DType::f32;
  if (type.ptr() == torch.i64) {
    dtype = DType::i64;
  } else if (type.ptr() == torch.boolean) {
    dtype = DType::boolean;
  } else if (type.ptr() != torch.f32) {
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
  if (kind == Kind::numpy) return as_numpy(t);
  if (kind == Kind::torch) return torch.exchange ? lend(t) : as<nb::pytorch>(t);
  return as<nb::array_api>(t);
}

}  // namespace fovea::python
