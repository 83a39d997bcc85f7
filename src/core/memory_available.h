#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace fovea {

// Bytes that this process can still take: what the machine has, or less where a control group says
// so. Files that are only cached count as free; swap does not.
int64_t memory_available();

// By these: /sys/fs/cgroup, /proc/self/cgroup, /proc/meminfo.
int64_t memory_available(const std::filesystem::path& groups,
                         const std::filesystem::path& of_process,
                         const std::filesystem::path& machine);

// Throws where `what` ("a model of this size") needs more bytes than there are, before any is
// taken; `lower` says what makes it smaller.
void check_room(const char* call, const std::string& what, int64_t bytes, const std::string& lower);

}  // namespace fovea
