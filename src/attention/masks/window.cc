#include <algorithm>

#include "attention/def.h"

namespace fovea {

// Luong's local-m; with causal beside it, the sliding window, aligned at the end like causal.
extern const MaskDef mask_window = {
    .name = "window",
    .formula =
        "p − L ≤ j ≤ p + R (window:W: L = R = W; inf: no bound), p = i, or i + Lk − Lq "
        "together with causal",
    .takes_width = true,
    .takes_sides = true,
    .range =
        [](const MaskTerm& t, const MaskContext& c, int64_t, int64_t i) {
          const int64_t p = c.at_end ? i + c.n.Lk - c.n.Lq : i;
          const int64_t most = c.n.Lq + c.n.Lk;  // no overflow, the same keys
          const int64_t left = std::min(t.width, most);
          const int64_t right = std::min(t.right.value_or(t.width), most);
          const int64_t begin = std::clamp<int64_t>(p - left, 0, c.n.Lk);
          return KeyRange{begin, std::clamp<int64_t>(p + right + 1, begin, c.n.Lk)};
        },
    .range_by_batch = false,
};

}  // namespace fovea
