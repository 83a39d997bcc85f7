#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "fovea/ops.h"

// Whether gradients are slopes.
namespace fovea::test {

struct SlopeCheck {
  float step = 4e-3f;
  uint64_t seed = 7;                        // of the directions
  double absolute = 3e-3, relative = 0.01;  // how far a slope may be off
};

// (f(w + εd) − f(w − εd)) / 2ε against g·d, for one tensor at a time and a random d. The weights
// have the gradients of f.
inline void expect_slopes(const Tensors& weights, const std::function<double()>& f,
                          const SlopeCheck& c = {}) {
  uint64_t seed = c.seed;
  for (const auto& [name, t] : weights) {
    Tensor w = t;
    const NoGrad off;
    ASSERT_TRUE(w.grad()) << name;
    const Tensor d = Tensor::randn(w.shape(), ++seed), before = w.detach().clone();
    const double along = static_cast<double>(sum(w.grad() * d).item());
    w.copy_(before + d * c.step);
    const double above = f();
    w.copy_(before - d * c.step);
    const double below = f();
    w.copy_(before);
    const double slope = (above - below) / (2 * static_cast<double>(c.step));
    ASSERT_NEAR(along, slope, c.absolute + c.relative * std::abs(slope)) << name;
  }
}

}  // namespace fovea::test
