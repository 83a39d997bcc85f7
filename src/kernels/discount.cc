#include "kernels/discount.h"

namespace fovea::kernels {

void discounted_sums(int64_t T, int64_t n, const float* x, float discount, float* y) {
  for (int64_t t = T - 1; t >= 0; --t) {
    for (int64_t i = t * n; i < (t + 1) * n; ++i) {
      const float later = t + 1 < T ? y[i + n] : 0.0f;
      y[i] = discount * later + x[i];
    }
  }
}

}  // namespace fovea::kernels
