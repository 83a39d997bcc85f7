#pragma once

#include <memory>
#include <vector>

#include "tensor/tape.h"

namespace fovea {

// Where a gradient goes: to the operation that made the input, or into a leaf; neither when the
// input needs none.
struct Edge {
  std::shared_ptr<Node> node;
  std::shared_ptr<TensorImpl> leaf;
};

// One recorded operation.
struct Node {
  const char* op = "";
  uint64_t sequence = 0;  // order of recording: inputs come before outputs
  Shape shape;            // of the output
  std::vector<Edge> inputs;
  Backward backward;  // empty once freed
  bool freed = false;

  ~Node();
};

}  // namespace fovea
