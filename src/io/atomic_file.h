#pragma once

#include <cstddef>
#include <filesystem>

#include "fovea/api.h"

namespace fovea {

// A file that appears under its name complete or not at all, even through a power cut: bytes go to
// a temporary file in the same folder; commit() syncs it, renames it over the target and syncs the
// folder. Without commit() nothing is left behind. Throws fovea::Error with the system's reason.
class FOVEA_API AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& target);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, size_t bytes);
  void commit();

 private:
  [[noreturn]] void fail(const char* what, int error) const;

  std::filesystem::path target_, temporary_;
  int file_ = -1;
};

}  // namespace fovea
