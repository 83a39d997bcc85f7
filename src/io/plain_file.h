#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "fovea/api.h"

namespace fovea {

// Why a file cannot be read, without its name.
struct Unreadable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A file to read from: a plain one, or a link to one. A folder, a pipe, a socket or a device is
// refused, and none of them is waited for. Whatever fails throws Unreadable. Read by position
// rather than mapped: a file that shrinks meanwhile is an error, no signal.
class PlainFile {
 public:
  explicit PlainFile(const std::filesystem::path&);
  ~PlainFile();
  PlainFile(const PlainFile&) = delete;
  PlainFile& operator=(const PlainFile&) = delete;

  uint64_t bytes() const { return bytes_; }  // when it was opened
  void read(uint64_t offset, void* to, size_t n) const;
  int take();  // the descriptor, which the caller closes

 private:
  int file_;
  uint64_t bytes_ = 0;
};

// All of a file that has no more than so many bytes.
FOVEA_API std::string read_plain_file(const std::filesystem::path&, uint64_t most);

}  // namespace fovea
