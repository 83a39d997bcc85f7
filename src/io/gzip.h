#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>

#include "fovea/api.h"

namespace fovea {

inline constexpr uint64_t kMaxUnpacked = uint64_t{4} << 30;          // bytes of one file
inline constexpr uint64_t kMaxRatio = 100, kMaxRatioFrom = 8 << 20;  // unpacked to packed

// Bytes from end to end: so many at most, 0 at the end; may throw.
using ReadBytes = std::function<size_t(char* to, size_t most)>;

// A file's bytes, unpacked where it is gzipped. What cannot be read, is broken, or unpacks to far
// more than it is throws std::runtime_error that says so without the file's name.
FOVEA_API ReadBytes open_gzip(const std::filesystem::path&);

}  // namespace fovea
