#include "attention/var.h"

#include <gtest/gtest.h>

#include "attention/rows.h"

namespace fovea {
namespace {

TEST(VarTape, HasTheDerivativesOfItsDifferences) {
  const auto f = []<class T>(const T& x, const T& y) -> T {
    T z = exp(x) * tanh(y) / (1.5 + x * x) - log(y) + sqrt(x + y);
    z += sigmoid(x - y) * 3;
    z -= y / x;
    z *= x;
    z /= 2 + y;
    return -z + (x > y ? x : y) + 1 / x;
  };
  for (const auto& [x, y] : {std::pair{0.3, 0.8}, {1.7, 0.2}, {2.5, 3.0}}) {
    VarScope scope;
    const Var vx = scope.leaf(x), vy = scope.leaf(y);
    const Var z = f(vx, vy);
    scope.reverse(z, 2.0);
    EXPECT_EQ(z.value(), f(x, y));
    const double h = 1e-6;
    EXPECT_NEAR(scope.adjoint(vx), (f(x + h, y) - f(x - h, y)) / h, 1e-7);
    EXPECT_NEAR(scope.adjoint(vy), (f(x, y + h) - f(x, y - h)) / h, 1e-7);
  }
}

TEST(VarTape, CutsBackAndKeepsTheOuterGradients) {
  VarScope outer;
  const Var x = outer.leaf(3.0);
  const int64_t size = VarTape::here().size();
  for (int i = 0; i < 4; ++i) {
    VarScope inner;
    const std::vector<Var> a{x, 2.0, x}, b{x, x, 5.0};
    inner.reverse(dot(a, b), 1.0);  // x² + 2x + 5x
  }
  EXPECT_EQ(VarTape::here().size(), size);
  EXPECT_EQ(outer.adjoint(x), 4 * (2 * 3.0 + 7));
  EXPECT_TRUE((Var(2.0) * Var(3.0)).constant());
}

}  // namespace
}  // namespace fovea
