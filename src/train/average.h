#pragma once

#include "fovea/tensor.h"

namespace fovea::train {

// The moving average a of weights w: a ← d·a + (1 − d)·w after step t, from the first weights on,
// d = min(decay, (1 + t)/(10 + t)), so that the beginning is soon forgotten.
class Average {
 public:
  Average(const Tensors&, float decay);  // 0: none; the weights stand for themselves
  bool on() const { return decay_ > 0; }
  void update(int64_t step);
  void swap();                                       // averages and weights change places
  const Tensors& values() const { return values_; }  // by all names

 private:
  float decay_;
  Tensors weights_;  // distinct
  Tensors values_;
};

}  // namespace fovea::train
