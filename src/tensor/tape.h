#pragma once

#include <functional>
#include <memory>
#include <span>
#include <utility>
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

// The same for an operation with several outputs: one backward, when all gradients of outputs that
// will come have come; undefined where none came. Undefined outputs stay so.
using BackwardOfSeveral = std::function<Grads(const Grads& d_outputs)>;
std::vector<Tensor> record(const char* op, std::vector<Tensor> inputs, std::vector<Tensor> outputs,
                           BackwardOfSeveral backward);

// Recording is off while a backward function runs; this turns it on, for what it computes again to
// differentiate.
class Recording {
 public:
  Recording();
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

 private:
  bool before_;
};

// What Deferred is made of, whatever it keeps. An anchor is an empty tensor recorded before its
// uses and an input of each, so that its backward runs after theirs.
namespace anchors {

// record() with the anchor as one more input; backward returns nothing for it.
Tensor record_use(const char* op, std::vector<Tensor> inputs, const Tensor& anchor, Tensor output,
                  Backward backward);
// In a use's backward: what the running pass keeps for the anchor, made where there is nothing yet;
// the pass will then come to the anchor. Null where nobody asked for what lies behind it.
void* kept_for(const Tensor& anchor, std::shared_ptr<void> (*make)());
std::shared_ptr<void> take_kept();  // in the anchor's backward

}  // namespace anchors

// Gradients taken once for many uses of the same inputs, as dW = Σ_t dy_tᵀ x_t in one product:
//
//   Deferred<Rows> weights("linear", {w}, [](Rows all) { return Grads{...}; });
//   y_t = weights.use("linear", {x_t}, y_t, [](const Tensor& dy, Rows* kept) {
//     if (kept) kept->add(dy, ...);
//     return Grads{...};  // d x_t
//   });
//
// The backward functions of the uses keep what they know in one Kept of the running pass; when the
// last of them is through, `finish` gets it and returns a gradient per input. It belongs to the
// pass, and is freed with it. A use gets null where the pass wants none of the inputs' gradients.
template <class Kept>
class Deferred {
 public:
  Deferred() = default;  // of no inputs
  Deferred(const char* op, std::vector<Tensor> inputs, std::function<Grads(Kept)> finish) {
    if (!needs_grad(inputs)) return;
    anchor_ = record(op, std::move(inputs), Tensor::empty({0}, DType::f32, Device::cpu),
                     [finish = std::move(finish)](const Tensor&) {
                       const auto kept = anchors::take_kept();
                       return finish(std::move(*static_cast<Kept*>(kept.get())));
                     });
  }

  // Whether an input needs a gradient.
  explicit operator bool() const { return anchor_.defined(); }

  // record(), for an output made of `inputs` and of those given above.
  Tensor use(const char* op, std::vector<Tensor> inputs, Tensor output,
             std::function<Grads(const Tensor& d_output, Kept*)> backward) const {
    return anchors::record_use(
        op, std::move(inputs), anchor_, std::move(output),
        [anchor = anchor_, backward = std::move(backward)](const Tensor& d_output) {
          return backward(d_output, kept_for(anchor));
        });
  }

 private:
  static Kept* kept_for(const Tensor& anchor) {
    if (!anchor) return nullptr;
    return static_cast<Kept*>(anchors::kept_for(
        anchor, [] { return std::static_pointer_cast<void>(std::make_shared<Kept>()); }));
  }

  Tensor anchor_;
};

}  // namespace fovea
