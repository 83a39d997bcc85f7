// A program of somebody else's: only the installed headers and library.
#include <cmath>
#include <cstdio>

#include "fovea/attention.h"
#include "fovea/runtime.h"

int main() {
  // One query between two equal keys: the context is the mean of their values.
  const auto q = fovea::Tensor::from({1, 0}, {1, 2});
  const auto k = fovea::Tensor::from({3, 1, 3, 1}, {2, 2});
  const auto v = fovea::Tensor::from({2, 4, 6, 8}, {2, 2});
  const auto context = fovea::attend(q, k, v).context.to_vector();
  std::printf("fovea %s: %g %g\n", fovea::version(), context[0], context[1]);
  return std::abs(context[0] - 4) < 1e-6f && std::abs(context[1] - 6) < 1e-6f ? 0 : 1;
}
