#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "fovea/nn.h"
#include "fovea/ops.h"
#include "tests/errors.h"

namespace fovea::nn {

using test::error_of;

inline void expect_near(const Tensor& found, const Tensor& expected, const std::string& what,
                        double relative = 2e-5, double absolute = 2e-6) {
  ASSERT_TRUE(found) << what;
  ASSERT_EQ(found.shape(), expected.shape()) << what;
  const auto a = found.to_vector(), b = expected.to_vector();
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], absolute + relative * std::abs(b[i])) << what << " at " << i;
  }
}

// The tensors whose names begin with `prefix`, with another beginning.
inline Tensors below(const Tensors& all, const std::string& prefix,
                     const std::string& instead = {}) {
  Tensors found;
  for (const auto& [name, t] : all) {
    if (name.starts_with(prefix)) found[instead + name.substr(prefix.size())] = t;
  }
  return found;
}

inline Tensor leaf(const Shape& shape, uint64_t seed) {
  return Tensor::randn(shape, seed).set_requires_grad();
}

}  // namespace fovea::nn
