#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/tensor.h"

// The JSON header of a safetensors file:
//   {"__metadata__": {"key": "text"}, "name": {"dtype": "F32", "shape": [2, 3],
//    "data_offsets": [0, 24]}}
namespace fovea::safetensors {

// What the file holds breaks the format; the callers add which file it was.
struct Malformed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;
inline constexpr size_t kMaxRank = 32;

enum class Stored : uint8_t { boolean, u8, i8, u16, i16, f16, bf16, u32, i32, f32, u64, i64, f64 };

struct StoredType {
  const char* name;  // as in the header
  Stored stored;
  int64_t bytes;  // of one element in the file
  DType loaded;   // what it becomes
};
const StoredType* find_type(std::string_view name);  // null when unknown

struct Entry {
  std::string name;
  const StoredType* type = nullptr;
  Shape shape;
  uint64_t begin = 0, end = 0;  // bytes, counted from the end of the header
  int64_t numel = 0;
};

struct Header {
  std::vector<Entry> entries;  // in the order of their bytes
  std::map<std::string, std::string> metadata;
};

// Throws Malformed unless the entries are well-formed and cover `data_bytes` bytes exactly: each
// byte belongs to one tensor.
Header parse_header(std::string_view json, uint64_t data_bytes);

// A name for an error message: quoted, without control characters, of bounded length.
std::string in_quotes(std::string_view name);

}  // namespace fovea::safetensors
