#pragma once

#include <filesystem>
#include <memory>

#include "io/safetensors_header.h"

namespace fovea {

class PlainFile;

// What holds an entry's floats as they are stored, f32 where none does.
DType kept_as(const safetensors::Entry&);

// A safetensors file that is read tensor by tensor, into places that are there already. Opening it
// checks the header and the file's size, and reads nothing else. Whatever fails throws
// fovea::Error, with the file's name.
class TensorReader {
 public:
  explicit TensorReader(const std::filesystem::path&);
  ~TensorReader();
  TensorReader(TensorReader&&) noexcept;
  TensorReader& operator=(TensorReader&&) noexcept;

  const std::filesystem::path& path() const { return path_; }
  const safetensors::Header& header() const { return header_; }
  // An entry's numbers, numel of them: as 32-bit floats, or as kept_as() says; refused where they
  // are integers.
  void read(const safetensors::Entry&, DType, void* to) const;

 private:
  std::filesystem::path path_;
  std::unique_ptr<PlainFile> file_;
  safetensors::Header header_;
  uint64_t data_ = 0;  // where the tensors' bytes begin
};

}  // namespace fovea
