#pragma once

#include <functional>

#include "fovea/api.h"

namespace fovea {

// While one lives, work on its thread asks whether it is still wanted, whenever it takes memory for
// a tensor, a line of text or an image: what `ask` throws ends the work. So a computation of any
// kind can be given up without knowing that it can. It must not throw an Error: that is what an
// input is refused with, and some work leaves such an input out and goes on.
class Interruptible {
 public:
  explicit Interruptible(std::function<void()> ask);
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

 private:
  friend void ask_to_go_on();
  std::function<void()> ask_;
  const Interruptible* before_;
};

FOVEA_API void ask_to_go_on();  // nothing, where nobody set one

}  // namespace fovea
