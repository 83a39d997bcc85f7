#include "kernels/cross_entropy.h"

#include <algorithm>

namespace fovea::kernels {

int64_t cross_entropy_rows(Rows rows, const Targets& t, const float* log_p, float* loss) {
  const float s = t.smoothing, each = s / static_cast<float>(rows.n);
  int64_t counted = 0;
  for (int64_t r = 0; r < rows.count; ++r) {
    loss[r] = 0.0f;
    if (t.ids[r] == t.ignored) continue;
    const float* row = log_p + r * rows.n;
    loss[r] = -(1.0f - s) * row[t.ids[r]];
    if (s > 0.0f) {
      double sum = 0.0;
      for (int64_t c = 0; c < rows.n; ++c) sum += row[c];
      loss[r] -= static_cast<float>(each * sum);
    }
    ++counted;
  }
  return counted;
}

void d_cross_entropy_rows(Rows rows, const Targets& t, const LossGradient& d, const float* log_p,
                          float* dx) {
  const float s = t.smoothing, each = s / static_cast<float>(rows.n);
  for (int64_t r = 0; r < rows.count; ++r) {
    const bool counts = t.ids[r] != t.ignored;
    const float scale = -d.factor * d.d_loss[r * d.step];
    float* row = dx + r * rows.n;
    std::fill_n(row, rows.n, counts && s > 0.0f ? scale * each : 0.0f);
    if (counts) row[t.ids[r]] += scale * (1.0f - s);
  }
  d_log_softmax_rows(rows, log_p, dx, dx);
}

}  // namespace fovea::kernels
