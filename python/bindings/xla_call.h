#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

// How XLA calls a function of somebody else's: its "foreign function interface", a C ABI of version
// 0.x that XLA promises to keep. Only what a handler on the CPU reads is named here, so that
// nothing of JAX is needed to build. Every struct begins with its size and a list of extensions.
namespace fovea::xla {

enum Type : int32_t { kBool = 1, kInt32 = 4, kInt64 = 5, kFloat32 = 11 };
enum Stage : int32_t { kExecute = 3 };
enum AttributeKind : int32_t { kScalar = 3, kString = 4 };

struct Extension {
  size_t size;
  int32_t type;  // 1: XLA asks for the handler's metadata, and calls it for nothing else
  Extension* next;
};

struct Version {
  size_t size;
  Extension* extensions;
  int32_t major, minor;
};

struct Metadata {
  size_t size;
  Version version;
  uint32_t traits;
  int64_t state_type;
};
struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

struct Buffer {
  size_t size;
  Extension* extensions;
  Type type;
  void* data;
  int64_t rank;
  int64_t* dims;
};

struct Bytes {
  const char* data;
  size_t length;
  std::string_view view() const { return {data, length}; }
};
struct Scalar {
  Type type;
  void* value;
};

// Arguments or results.
struct Buffers {
  size_t size;
  Extension* extensions;
  int64_t count;
  int32_t* kinds;  // 1: a buffer
  void** all;
  const Buffer& operator[](int64_t i) const { return *static_cast<const Buffer*>(all[i]); }
};

struct Attributes {
  size_t size;
  Extension* extensions;
  int64_t count;
  int32_t* kinds;
  Bytes** names;
  void** all;
};

struct Error;
struct MakeError {
  size_t size;
  Extension* extensions;
  const char* message;
  int32_t code;  // 3: an invalid argument
};

struct Api {
  size_t size;
  Extension* extensions;
  Version version;
  const void* internal;
  Error* (*make_error)(MakeError*);
};

struct Call {
  size_t size;
  Extension* extensions;
  const Api* api;
  void* context;
  int32_t stage;
  Buffers arguments, results;
  Attributes attributes;
};

}  // namespace fovea::xla
