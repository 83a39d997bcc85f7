#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "fovea/io.h"
#include "io/atomic_file.h"

namespace fovea {

// A safetensors file that is written tensor by tensor, so that one at a time need be there. It
// appears under its name complete or not at all.
class TensorWriter {
 public:
  // As `like` has them by name: shapes and types; their values are not looked at.
  TensorWriter(const std::filesystem::path&, const Tensors& like, const Metadata& = {});

  void write(const Tensor&);  // the next of order()
  void commit();

  // Widest elements first, then by name: every tensor is aligned, and the bytes depend on nothing
  // but the content.
  static std::vector<std::string> order(const Tensors& like);

 private:
  const Tensors like_;
  const std::vector<std::string> order_;
  const std::string header_;
  size_t written_ = 0;
  AtomicFile file_;
};

}  // namespace fovea
