#include <algorithm>
#include <limits>

#include "attention/def.h"

namespace fovea {

// Luong's local-m; with causal beside it, the sliding window, aligned at the end like causal.
extern const MaskDef mask_window = {
    .name = "window",
    .formula =
        "p − L ≤ j ≤ p + R (window:W: L = R = W; inf: no bound), p = i, or i + Lk − Lq "
        "together with causal",
    .numbers = {{.name = "width", .example = 64, .endless = true},
                {.name = "right?", .endless = true}},
    .range =
        [](const MaskTerm& t, const MaskContext& c, int64_t, int64_t i) {
          const int64_t p = c.at_end ? i + c.n.Lk - c.n.Lq : i;
          const auto most = static_cast<double>(c.n.Lq + c.n.Lk);  // no overflow, the same keys
          const auto left = static_cast<int64_t>(std::min(t.numbers[0], most));
          const auto right = static_cast<int64_t>(std::min(t.numbers[1], most));
          const int64_t begin = std::clamp<int64_t>(p - left, 0, c.n.Lk);
          return KeyRange{begin, std::clamp<int64_t>(p + right + 1, begin, c.n.Lk)};
        },
    .range_by_batch = false,
};

Mask masks::window(int64_t w) { return window(w, w); }

Mask masks::window(int64_t left, int64_t right) {
  const auto number = [](int64_t side) {
    return side == kUnbounded ? std::numeric_limits<double>::infinity() : static_cast<double>(side);
  };
  return {{{.def = &mask_window, .numbers = {number(left), number(right)}}}};
}

}  // namespace fovea
