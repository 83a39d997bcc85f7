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

// The threads of one piece of work, counted once. set_threads() may change the number at any
// moment, so whoever sizes scratch by a count must run on that count: both come from one Crew,
// which is made where it is used.
class Crew {
 public:
  Crew();  // threads() as they are now; inside parallel_for, one
  int size() const { return size_; }
  // parallel_for, with a place below size() that no other body has meanwhile: for choosing scratch,
  // never for choosing work.
  using Body = std::function<void(int64_t i, int place)>;
  void run(int64_t n, const Body&) const;
  void run(int64_t n, int64_t cost, const Body&) const;

 private:
  int size_;
};

// The library's own threads, as many as set_threads() says: what works where a program sets no
// executor, and what one with a policy of its own hands its work to.
Executor own_executor();

// What FOVEA_THREADS or OMP_NUM_THREADS say, else the CPUs of the process's affinity and its
// control group's quota. Throws where FOVEA_THREADS is no number.
int threads_by_default();
// CPUs by quota, rounded up; many where there is none. `root` is where control groups are mounted.
int quota_cpus(const std::filesystem::path& root, const std::filesystem::path& of_process);

}  // namespace fovea
