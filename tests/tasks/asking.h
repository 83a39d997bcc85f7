#pragma once

#include <utility>
#include <vector>

#include "tasks/explain.h"

namespace fovea::tasks {

inline Explaining asking(std::vector<By> by) {
  Explaining how;
  how.by = std::move(by);
  return how;
}

}  // namespace fovea::tasks
