#pragma once

#include <nanobind/ndarray.h>

#include <cstdint>

// How a library hands its arrays over in C, by DLPack 1.x: a table of functions that its array type
// carries as `__dlpack_c_exchange_api__` (PyTorch's since 2.10). Only what is called here has a
// type.
namespace fovea::dlpack {

struct Version {
  uint32_t major, minor;
};

struct Managed {
  Version version;
  void* context;
  void (*deleter)(Managed*);
  uint64_t flags;
  nanobind::dlpack::dltensor tensor;
};

struct Exchange {
  Version version;
  Exchange* older;
  void* allocate;
  void* from_object_owned;
  int (*to_object)(Managed*, void** object);
  int (*from_object)(void* object, nanobind::dlpack::dltensor*);  // what it shows is the object's
  void* current_stream;
};

constexpr const char* kExchange = "dlpack_exchange_api";  // the capsule's name

}  // namespace fovea::dlpack
