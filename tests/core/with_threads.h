#pragma once

#include "fovea/runtime.h"

namespace fovea {

// So many threads while it lives.
struct Threads {
  int before = threads();
  explicit Threads(int n) { set_threads(n); }
  ~Threads() { set_threads(before); }
};

}  // namespace fovea
