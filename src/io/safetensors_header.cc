#include "io/safetensors_header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

namespace fovea::safetensors {
namespace {

constexpr std::array<StoredType, 13> kTypes = {{
    {"BOOL", Stored::boolean, 1, DType::boolean},
    {"U8", Stored::u8, 1, DType::i64},
    {"I8", Stored::i8, 1, DType::i64},
    {"U16", Stored::u16, 2, DType::i64},
    {"I16", Stored::i16, 2, DType::i64},
    {"F16", Stored::f16, 2, DType::f32},
    {"BF16", Stored::bf16, 2, DType::f32},
    {"U32", Stored::u32, 4, DType::i64},
    {"I32", Stored::i32, 4, DType::i64},
    {"F32", Stored::f32, 4, DType::f32},
    {"U64", Stored::u64, 8, DType::i64},
    {"I64", Stored::i64, 8, DType::i64},
    {"F64", Stored::f64, 8, DType::f32},
}};

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Malformed(fmt::format(format, std::forward<Args>(args)...));
}

std::string type_names() {
  std::string names;
  for (const StoredType& type : kTypes) names += fmt::format(" {}", type.name);
  return names;
}

// Elements of `dims`; their bytes, in the file and loaded (at most 8 each), must fit an int64, and
// so must every stride.
int64_t count_elements(const std::string& name, const std::vector<uint64_t>& dims) {
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max() / 8;
  uint64_t spanned = 1;
  bool none = false;
  for (const uint64_t dim : dims) {
    none = none || dim == 0;
    if (__builtin_mul_overflow(spanned, std::max<uint64_t>(dim, 1), &spanned) || spanned > kMost) {
      fail("tensor {}: the size of shape [{}] overflows", in_quotes(name), fmt::join(dims, ", "));
    }
  }
  return none ? 0 : static_cast<int64_t>(spanned);
}

// Reads the header token by token; nothing nests deeper than its three levels, so that neither a
// tree nor a deep stack is ever built.
class Reader : public nlohmann::json_sax<nlohmann::json> {
 public:
  Header header;

  bool start_object(size_t) override {
    if (place_ == Place::start) {
      place_ = Place::names;
    } else if (place_ == Place::names) {
      place_ = key_ == "__metadata__" ? Place::metadata : Place::tensor;
      entry_ = {};
      entry_.name = key_;
      seen_.clear();
    } else {
      wrong("an object");
    }
    return true;
  }

  bool key(string_t& name) override {
    std::set<std::string>& taken = place_ == Place::names ? names_ : seen_;
    if (!taken.insert(name).second) {
      fail("{} {} appears twice", place_ == Place::names ? "tensor" : "key", in_quotes(name));
    }
    if (place_ == Place::tensor && name != "dtype" && name != "shape" && name != "data_offsets") {
      fail("tensor {}: unknown field {}", in_quotes(entry_.name), in_quotes(name));
    }
    key_ = name;
    return true;
  }

  bool end_object() override {
    if (place_ == Place::tensor) finish_tensor();
    place_ = place_ == Place::names ? Place::done : Place::names;
    return true;
  }

  bool start_array(size_t) override {
    if (place_ != Place::tensor || key_ == "dtype") wrong("a list");
    place_ = Place::numbers;
    numbers_.clear();
    return true;
  }

  bool end_array() override {
    place_ = Place::tensor;
    if (key_ == "shape") {
      dims_ = numbers_;
    } else if (numbers_.size() == 2) {
      entry_.begin = numbers_[0];
      entry_.end = numbers_[1];
    } else {
      wrong("a list that is no pair");
    }
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::numbers) wrong("a number");
    if (numbers_.size() == kMaxRank) wrong(fmt::format("a list of more than {} numbers", kMaxRank));
    numbers_.push_back(value);
    return true;
  }

  bool string(string_t& text) override {
    if (place_ == Place::metadata) {
      header.metadata[key_] = text;
    } else if (place_ == Place::tensor && key_ == "dtype") {
      entry_.type = find_type(text);
      if (entry_.type == nullptr) {
        fail("tensor {}: unknown dtype {}, known are{}", in_quotes(entry_.name), in_quotes(text),
             type_names());
      }
    } else {
      wrong("a string");
    }
    return true;
  }

  bool number_integer(number_integer_t) override { wrong("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { wrong("no 64-bit integer"); }
  bool null() override { wrong("null"); }
  bool boolean(bool) override { wrong("a boolean"); }
  bool binary(binary_t&) override { wrong("binary data"); }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::json::exception& error) override {
    fail("the header is {} at byte {}",
         error.id == 406 ? "out of the range of numbers" : "not valid JSON in UTF-8", position);
  }

 private:
  enum class Place { start, names, tensor, metadata, numbers, done };

  [[noreturn]] void wrong(std::string_view found) const {
    switch (place_) {
      case Place::metadata:
        fail("metadata {} must be a string, found {}", in_quotes(key_), found);
      case Place::names:
        fail("tensor {} must be an object, found {}", in_quotes(key_), found);
      case Place::tensor:
      case Place::numbers:
        fail("tensor {}: {} must be {}, found {}", in_quotes(entry_.name), key_,
             key_ == "dtype"   ? "a string"
             : key_ == "shape" ? "a list of whole numbers from 0"
                               : "two whole numbers from 0",
             found);
      default:
        fail("the header must be an object, found {}", found);
    }
  }

  void finish_tensor() {
    if (seen_.size() != 3) {
      fail("tensor {} needs dtype, shape and data_offsets", in_quotes(entry_.name));
    }
    entry_.numel = count_elements(entry_.name, dims_);
    entry_.shape.assign(dims_.begin(), dims_.end());
    if (entry_.begin > entry_.end) {
      fail("tensor {}: data_offsets [{}, {}] are reversed", in_quotes(entry_.name), entry_.begin,
           entry_.end);
    }
    const uint64_t needed = static_cast<uint64_t>(entry_.numel) * entry_.type->bytes;
    if (entry_.end - entry_.begin != needed) {
      fail("tensor {}: shape {} of {} needs {} bytes, data_offsets hold {}", in_quotes(entry_.name),
           to_string(entry_.shape), entry_.type->name, needed, entry_.end - entry_.begin);
    }
    header.entries.push_back(std::move(entry_));
  }

  Place place_ = Place::start;
  std::string key_;
  std::set<std::string> names_;  // keys of the outer object so far
  std::set<std::string> seen_;   // and of the inner one
  Entry entry_;
  std::vector<uint64_t> dims_;
  std::vector<uint64_t> numbers_;
};

// One tensor begins where the last one ended, and the last byte is the last tensor's.
void check_cover(const std::vector<Entry>& entries, uint64_t data_bytes) {
  uint64_t covered = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != covered) {
      fail("tensor {} begins at byte {} of the data, the one before it ends at {}: {}",
           in_quotes(entry.name), entry.begin, covered, entry.begin < covered ? "overlap" : "hole");
    }
    covered = entry.end;
  }
  if (covered != data_bytes) {
    fail("the tensors cover {} bytes, the file holds {} bytes of data", covered, data_bytes);
  }
}

}  // namespace

const StoredType* find_type(std::string_view name) {
  const auto* found = std::find_if(kTypes.begin(), kTypes.end(),
                                   [&](const StoredType& type) { return name == type.name; });
  return found == kTypes.end() ? nullptr : found;
}

std::string in_quotes(std::string_view name) {
  constexpr size_t kLongest = 80;
  const bool cut = name.size() > kLongest;
  if (cut) {
    size_t end = kLongest;
    while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0) == 0x80) --end;
    name = name.substr(0, end);
  }
  std::string text = "'";
  for (const char c : name) {
    const auto code = static_cast<unsigned char>(c);
    text += code < 0x20 || code == 0x7f ? fmt::format("\\x{:02x}", code) : std::string(1, c);
  }
  return text + (cut ? "…'" : "'");
}

Header parse_header(std::string_view json, uint64_t data_bytes) {
  if (json.empty() || json.front() != '{') fail("the header does not begin with {{");
  if (json.find('\0') != std::string_view::npos) fail("the header holds a zero byte");
  Reader reader;
  nlohmann::json::sax_parse(json.begin(), json.end(), &reader);
  std::vector<Entry>& entries = reader.header.entries;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  check_cover(entries, data_bytes);
  return std::move(reader.header);
}

}  // namespace fovea::safetensors
