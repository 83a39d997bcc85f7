#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fovea/api.h"

namespace fovea {

// Threads used by every operation. Results do not depend on the number.
// Default: FOVEA_THREADS, else OMP_NUM_THREADS, else the cores this process may run on: its
// affinity and the quota of its control group.
FOVEA_API int threads();
FOVEA_API void set_threads(int n);

// Who runs work, where a program has threads of its own. Results do not depend on it.
struct Executor {
  std::function<int()> threads;  // how many run at once, the calling one among them
  // Calls body(i) once for each i in [0, n), in any order and on any threads, and returns when all
  // have returned. body does not throw, and asks for no other run.
  std::function<void(int64_t n, const std::function<void(int64_t)>& body)> run;
};
// In place of the library's own threads, of which it then starts none; set_executor({}) returns to
// them. While no thread computes.
FOVEA_API void set_executor(Executor);

// Instruction sets compiled in and supported here, best first, and the one in use.
// FOVEA_ISA or use_isa() forces one; use_isa("") returns to the best.
FOVEA_API std::vector<std::string> isas();
FOVEA_API std::string isa();
FOVEA_API void use_isa(const std::string& name);

// Bytes held by tensors and scratch, now and at most since the last reset.
FOVEA_API int64_t memory_in_use();
FOVEA_API int64_t memory_peak();
FOVEA_API void reset_memory_peak();

FOVEA_API const char* version();  // "0.2.0"

}  // namespace fovea
