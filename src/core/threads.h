#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "fovea/runtime.h"

namespace fovea {

// Calls body(i) for i in [0, n), on threads() threads, in any order. What one i computes must not
// depend on which thread runs it; results are then the same at any thread count. Exceptions
// thrown by body reach the caller (the first one). Nested calls run on the calling thread.
void parallel_for(int64_t n, const std::function<void(int64_t)>& body);

// The same, several i to a task where one costs little: `cost` is about the numbers it touches.
void parallel_for(int64_t n, int64_t cost, const std::function<void(int64_t)>& body);

// The calling thread's index inside parallel_for, 0 outside: for choosing scratch, never for
// choosing work.
int thread_index();

// What FOVEA_THREADS or OMP_NUM_THREADS say, else the CPUs of the process's affinity and its
// control group's quota. Throws where FOVEA_THREADS is no number.
int threads_by_default();
// CPUs by quota, rounded up; many where there is none. `root` is where control groups are mounted.
int quota_cpus(const std::filesystem::path& root, const std::filesystem::path& of_process);

}  // namespace fovea
