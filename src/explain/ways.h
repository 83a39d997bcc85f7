#pragma once

#include <vector>

#include "fovea/rank.h"

namespace fovea::explain {

// All choices of parts on their way through the same blocks, side by side, so that each block is
// needed once.
class Ways {
 public:
  // lengths i64 [B] of the sequences, or undefined: no padding.
  Ways(const Tensor& x, const Tensor& lengths, int64_t blocks, const RankProgress&);
  void step(const nn::Block&, const nn::BlockPass&);
  const std::vector<RankCurve>& curves() const { return curves_; }

 private:
  double residual(const Tensor& x) const;

  std::vector<int64_t> lengths_;
  int64_t steps_ = 0, all_steps_;
  const RankProgress& progress_;
  std::vector<Tensor> x_;  // [B,L,W] each
  std::vector<RankCurve> curves_;
};

}  // namespace fovea::explain
