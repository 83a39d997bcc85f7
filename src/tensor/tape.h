#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <vector>

#include "fovea/tensor.h"

// The define-by-run tape. An operation computes its output, then records how gradients flow back:
//
//   Tensor exp(const Tensor& x) {
//     Tensor y = ...;
//     return record("exp", {x}, y, [y = Saved(y)](const Tensor& dy) { return Grads{dy *
//     y.get("exp")}; });
//   }
namespace fovea {

using Grads = std::vector<Tensor>;  // one per input; undefined where there is none

// A tensor kept for the backward pass, off the tape, that notices in-place changes made since.
// Keeping an operation's own output this way makes no reference cycle.
class Saved {
 public:
  Saved() = default;
  explicit Saved(const Tensor& t);
  const Tensor& get(const char* op) const;  // throws Error where the data changed since

 private:
  Tensor tensor_;
  uint64_t version_ = 0;
};

// True when recording is on and one of the inputs needs a gradient.
bool needs_grad(std::span<const Tensor> inputs);

// Makes `output` depend on `inputs` on the tape, when needs_grad(inputs); returns it. The backward
// function gets d output and returns one gradient per input. Backward runs iteratively, in reverse
// order of recording, each node once, its gradients summed; then its graph is freed.
using Backward = std::function<Grads(const Tensor& d_output)>;
Tensor record(const char* op, std::vector<Tensor> inputs, Tensor output, Backward backward);

// Inside a backward function: whether input i's gradient is wanted is known when recording:
//   const bool want_dq = q.requires_grad();

}  // namespace fovea
