#pragma once

#include <optional>
#include <vector>

#include "tasks/explain.h"
#include "tasks/inside_blocks.h"

// The ways of explaining that go through blocks, as pictures and tables.
namespace fovea::tasks {

struct OfBlocks {
  const Inside& in;
  const Explaining& how;
  std::optional<Contrast> contrast;
  std::vector<int64_t> outputs;  // where there is no contrast
  ShareDone done;
};
std::vector<Explanation> explained_by_blocks(const OfBlocks&, By);

}  // namespace fovea::tasks
