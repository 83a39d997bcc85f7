#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "core/threads.h"
#include "fovea/io.h"
#include "io/atomic_file.h"
#include "io/convert.h"
#include "io/metadata.h"
#include "io/plain_file.h"
#include "io/safetensors_header.h"
#include "io/tensor_reader.h"
#include "io/tensor_writer.h"
#include "tensor/bytes.h"

// A file is 8 bytes of header length n (little-endian), n bytes of JSON, and the tensors' bytes.
namespace fovea {
namespace {

using namespace safetensors;

constexpr uint64_t kPrefix = 8;

struct Source {
  uint64_t bytes;
  std::function<void(uint64_t offset, void* to, size_t n)> read;
};

// ---- Reading -----------------------------------------------------------------------------------

uint64_t header_length(const Source& source) {
  if (source.bytes < kPrefix) {
    throw Malformed(fmt::format("{} bytes are too short for a safetensors file", source.bytes));
  }
  uint64_t length = 0;
  source.read(0, &length, kPrefix);
  if (length > kMaxHeaderBytes) {
    throw Malformed(fmt::format("the header length {} is over {}", length, kMaxHeaderBytes));
  }
  if (length > source.bytes - kPrefix) {
    throw Malformed(fmt::format("the header length is {}, the file holds {} more bytes", length,
                                source.bytes - kPrefix));
  }
  return length;
}

// Floats are made on the default device, ids and masks here.
Tensor in_its_place(const Tensor& t) {
  return t.dtype() == DType::f32 ? t.to(default_device()) : t;
}

// Some megabytes to a thread: fresh pages take as long as what is copied into them.
void read_bytes(const Source& source, uint64_t from, uint64_t bytes, std::byte* to) {
  constexpr uint64_t kPart = uint64_t{4} << 20;
  parallel_for(static_cast<int64_t>((bytes + kPart - 1) / kPart), [&](int64_t part) {
    const uint64_t first = static_cast<uint64_t>(part) * kPart;
    source.read(from + first, to + first, std::min(kPart, bytes - first));
  });
}

// An entry's numbers, as the type that it is loaded as.
void read_numbers(const Source& source, uint64_t data, const Entry& entry, std::byte* to) {
  if (entry.type->stored == Stored::f32 || entry.type->stored == Stored::i64) {
    return read_bytes(source, data + entry.begin, entry.end - entry.begin, to);
  }
  constexpr int64_t kBlock = 8192;  // elements
  std::byte block[kBlock * 8];
  for (int64_t i = 0; i < entry.numel; i += kBlock) {
    const int64_t n = std::min(kBlock, entry.numel - i);
    source.read(data + entry.begin + i * entry.type->bytes, block, n * entry.type->bytes);
    convert(entry.type->stored, block, to + i * size_of(entry.type->loaded), n);
  }
}

Tensor read_tensor(const Source& source, uint64_t data, const Entry& entry) {
  Tensor tensor = Tensor::empty(entry.shape, entry.type->loaded, Device::cpu);
  if (entry.numel > 0) {
    read_numbers(source, data, entry, bytes_of(tensor));
  }
  return in_its_place(tensor);
}

Header read_header(const Source& source, uint64_t& data) {
  const uint64_t length = header_length(source);
  std::string json(length, '\0');
  source.read(kPrefix, json.data(), length);
  data = kPrefix + length;
  return parse_header(json, source.bytes - data);
}

template <class Wanted>
TensorFile read_some(const Source& source, const Wanted& wanted) {
  uint64_t data = 0;  // where the tensors' bytes begin
  Header header = read_header(source, data);
  TensorFile file;
  file.metadata = std::move(header.metadata);
  for (const Entry& entry : header.entries) {
    if (wanted(entry.name)) file.tensors.emplace(entry.name, read_tensor(source, data, entry));
  }
  return file;
}

TensorFile read_all(const Source& source) {
  return read_some(source, [](const std::string&) { return true; });
}

// do_it(), what it says of the file with the file's name.
template <class Do>
auto naming(const std::filesystem::path& path, const Do& do_it) {
  const auto failed = [&](const char* why) {
    return Error("read_safetensors", path.string() + ": " + why);
  };
  try {
    return do_it();
  } catch (const Malformed& error) {
    throw failed(error.what());
  } catch (const Unreadable& error) {
    throw failed(error.what());
  }
}

Source source_of(const PlainFile& file) {
  return {file.bytes(), [&file](uint64_t offset, void* to, size_t n) { file.read(offset, to, n); }};
}

// use(source) of a file.
template <class Use>
auto of_file(const std::filesystem::path& path, const Use& use) {
  return naming(path, [&] {
    const PlainFile file(path);
    return use(source_of(file));
  });
}

// ---- Writing -----------------------------------------------------------------------------------

const char* stored_name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "F32";
    case DType::i64:
      return "I64";
    case DType::boolean:
      return "BOOL";
    case DType::bf16:
      return "BF16";
    case DType::f16:
      return "F16";
    case DType::i8:
      break;
  }
  throw Error("save_safetensors", "i8 weights are not kept in files; take to(DType::f32)");
}

std::string json_string(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw Error("save_safetensors", "a name or a metadata text is not UTF-8");
  }
}

std::string header_of(const Tensors& like, const std::vector<std::string>& order,
                      const Metadata& metadata) {
  std::string json = "{";
  const auto comma = [&] { return json.back() == '{' ? "" : ","; };
  if (!metadata.empty()) {
    json += "\"__metadata__\":{";
    for (const auto& [key, text] : metadata) {
      json += fmt::format("{}{}:{}", comma(), json_string(key), json_string(text));
    }
    json += "}";
  }
  int64_t offset = 0;
  for (const std::string& name : order) {
    const Tensor& tensor = like.at(name);
    const int64_t end = offset + tensor.numel() * size_of(tensor.dtype());
    json += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                        comma(), json_string(name), stored_name(tensor.dtype()),
                        fmt::join(tensor.shape(), ","), offset, end);
    offset = end;
  }
  json += "}";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  if (json.size() > kMaxHeaderBytes) {
    throw Error("save_safetensors", "names and metadata exceed the format's 100 MB");
  }
  return json;
}

}  // namespace

TensorFile parse_safetensors(std::span<const std::byte> bytes) {
  const auto read = [&](uint64_t offset, void* to, size_t n) {
    if (n > 0) std::memcpy(to, bytes.data() + offset, n);
  };
  try {
    return read_all({bytes.size(), read});
  } catch (const Malformed& error) {
    throw Error("parse_safetensors", error.what());
  }
}

TensorFile read_safetensors(const std::filesystem::path& path) { return of_file(path, read_all); }

namespace {

Header header_in(const std::filesystem::path& path) {
  return of_file(path, [](const Source& source) {
    uint64_t data = 0;
    return read_header(source, data);
  });
}

}  // namespace

Metadata read_metadata(const std::filesystem::path& path) { return header_in(path).metadata; }

Tensors sketch_safetensors(const std::filesystem::path& path) {
  Tensors sketch;
  for (const Entry& entry : header_in(path).entries) {
    sketch.emplace(entry.name, Tensor::zeros({}, entry.type->loaded).expand(entry.shape));
  }
  return sketch;
}

Tensors load_safetensors(const std::filesystem::path& path) {
  return read_safetensors(path).tensors;
}

Tensors load_safetensors(const std::filesystem::path& path, const std::vector<std::string>& names) {
  const std::set<std::string> wanted(names.begin(), names.end());
  return of_file(path, [&](const Source& source) {
    return read_some(source, [&](const std::string& name) { return wanted.contains(name); })
        .tensors;
  });
}

TensorReader::TensorReader(const std::filesystem::path& path)
    : path_(path), file_(naming(path, [&] { return std::make_unique<PlainFile>(path); })) {
  header_ = naming(path_, [&] { return read_header(source_of(*file_), data_); });
}
TensorReader::~TensorReader() = default;
TensorReader::TensorReader(TensorReader&&) noexcept = default;
TensorReader& TensorReader::operator=(TensorReader&&) noexcept = default;

DType kept_as(const Entry& entry) {
  const Stored stored = entry.type->stored;
  return stored == Stored::bf16 ? DType::bf16 : stored == Stored::f16 ? DType::f16 : DType::f32;
}

void TensorReader::read(const Entry& entry, DType as, void* to) const {
  if (entry.type->loaded != DType::f32) {
    throw Error("read_safetensors",
                fmt::format("{}: tensor {} is {}, expected floating-point "
                            "numbers",
                            path_.string(), in_quotes(entry.name), entry.type->name));
  }
  if (entry.numel == 0) return;
  naming(path_, [&] {
    auto* bytes = static_cast<std::byte*>(to);
    if (as == DType::f32) return read_numbers(source_of(*file_), data_, entry, bytes);
    read_bytes(source_of(*file_), data_ + entry.begin, entry.end - entry.begin, bytes);
  });
}

void save_safetensors(const std::filesystem::path& path, const Tensors& tensors,
                      const Metadata& metadata) {
  TensorWriter file(path, tensors, metadata);
  for (const std::string& name : TensorWriter::order(tensors)) file.write(tensors.at(name));
  file.commit();
}

TensorWriter::TensorWriter(const std::filesystem::path& path, const Tensors& like,
                           const Metadata& metadata)
    : like_(like), order_(order(like)), header_(header_of(like_, order_, metadata)), file_(path) {
  const uint64_t length = header_.size();
  file_.write(&length, kPrefix);
  file_.write(header_.data(), header_.size());
}

std::vector<std::string> TensorWriter::order(const Tensors& like) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : like) {
    if (!tensor.defined() || name == "__metadata__") {
      throw Error("save_safetensors",
                  fmt::format("tensor {} {}", in_quotes(name),
                              tensor.defined() ? "has the metadata's name" : "is undefined"));
    }
    names.push_back(name);
  }
  std::ranges::stable_sort(names, std::ranges::greater(),
                           [&](const std::string& name) { return size_of(like.at(name).dtype()); });
  return names;
}

void TensorWriter::write(const Tensor& tensor) {
  const Tensor& expected = like_.at(order_.at(written_++));
  if (tensor.shape() != expected.shape() || tensor.dtype() != expected.dtype()) {
    throw Error("save_safetensors",
                fmt::format("tensor {} must be {}, found {}", in_quotes(order_[written_ - 1]),
                            to_string(expected.shape()), to_string(tensor.shape())));
  }
  const int64_t bytes = tensor.numel() * size_of(tensor.dtype());
  if (bytes == 0) return;
  file_.write(bytes_of(tensor.detach().contiguous().to(Device::cpu)), static_cast<size_t>(bytes));
}

void TensorWriter::commit() {
  if (written_ != order_.size()) {
    throw Error("save_safetensors",
                fmt::format("{} tensors of {} were written", written_, order_.size()));
  }
  file_.commit();
}

void expect_shape(const std::string& name, const Tensor& tensor, const Shape& shape) {
  const auto agrees = [](int64_t found, int64_t expected) {
    return expected == -1 || found == expected;
  };
  const std::string expected = " must be " + to_string(shape);
  if (!tensor.defined()) throw Error("expect_shape", in_quotes(name) + expected + ", found none");
  const Shape& found = tensor.shape();
  if (!std::equal(found.begin(), found.end(), shape.begin(), shape.end(), agrees)) {
    throw Error("expect_shape", in_quotes(name) + expected + ", found " + to_string(found));
  }
}

}  // namespace fovea
