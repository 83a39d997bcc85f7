#include <cmath>

#include "attention/def.h"

namespace fovea {

extern const ScoreDef score_scaled_dot = {
    .name = "scaled_dot",
    .formula = "q·k / √D",
    .by_default = true,
    .equal_widths = true,
    .default_scale =
        [](const Sizes& n) {
          return n.Dq == 0 ? 1.0f : 1.0f / std::sqrt(static_cast<float>(n.Dq));
        },
    .reference = []<class T>(const Pair<T>& x) -> T { return dot(x.q, x.k); },
};

Score scores::scaled_dot() { return {.def = &score_scaled_dot}; }

}  // namespace fovea
