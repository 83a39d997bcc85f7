#pragma once

#include <memory>
#include <vector>

#include "attention/state.h"

// A call of attend() by blocks, some of its queries against some of its keys, so that neither all
// queries nor all keys need be in one place. A block is a call of its own, by the same kernels,
// that knows where it lies; what the blocks of a query give is merged in the order of their keys.
namespace fovea {

// What cannot be merged throws Error(call, …): weightings of whole rows, two predicted windows.
void check_mergeable(const char* call, const Attention&);

// Queries [first, first + count) of a call, lowered. All of it may be on the tape.
struct QueryRows {
  int64_t first = 0;
  Tensor q;          // [B,H,count,·]
  Tensor u;          // additive scores: [A]
  LoweredMask mask;  // against all keys

  int64_t count() const { return q.size(2); }
  // How many pairs of a query and a key the ranges of the mask leave, over the heads that share
  // them once; conditions and biases may forbid more.
  int64_t pairs_with(const KeyRange&, const Sizes&) const;
};
// The sizes are those of the whole call.
QueryRows lower_queries(const Attention&, const Sizes&, const Tensor& q, int64_t first);
// Keys [first, first + count), [B,Hk,count,Dk], lowered.
Tensor lower_keys(const Attention&, const Sizes&, const Tensor& k, int64_t first);

struct KeyRows {
  int64_t first = 0;
  Tensor k, v;  // k lowered
  KeyRange range() const { return {first, first + k.size(2)}; }
};

// What the blocks of some queries gave so far, and in the end what a call would have: with (m, l)
// the largest score and Σ e^{s − m} of a row,
//   context ← context·e^{m − m′} + context_block·e^{stat_block − m′},  l likewise,
// and at last context/l and m + log l. A chosen key is the first of the largest; weights by
// themselves just add up.
class Merged {
 public:
  Merged(const Attention&, const Sizes& of_queries);  // B, H, Hk, Lq of these queries, Dv
  void add(const QueryRows&, const KeyRows&);
  void finish();

  Tensor context;               // [B,H,Lq,Dv]
  Tensor stat;                  // [B,H,Lq]
  std::vector<int64_t> chosen;  // [B,H,Lq] in the call, hard weightings; −1: none
  Tensor log_prob;              // [B,H,Lq] of the chosen, sample
  // gumbel: the context of softmax(s + g), which its gradient reads; else `context`.
  Tensor smooth_context() const { return soft_ ? soft_->context : context; }

 private:
  void add_sums(const AttendedState&);
  void add_choices(const AttendedState&, const Tensor& log_prob, int64_t first_key);

  Attention attention_;
  Sizes n_;
  std::vector<float> m_, l_, best_;
  std::vector<float> score_;  // of the chosen, without noise
  std::shared_ptr<Merged> soft_;
};

// The gradients of a block, given what its rows gave in all; undefined where one does not require
// it. Of a bias: those of its keys (bias_of_keys). Of the parameters that pairs read: by name.
struct BlockGradients {
  Tensor q, k, v, u, bias, center;
  Tensors parameters;
};
BlockGradients block_backward(const Attention&, const Sizes&, const QueryRows&, const KeyRows&,
                              const Merged& whole, const Upstream&);

// The gradient of the sink [H], of all blocks of these queries.
Tensor sink_gradient(const Attention&, const Merged& whole, const Upstream&);

}  // namespace fovea
