#include <algorithm>

#include "attention/def.h"

namespace fovea {

// Aligned at the end, so that a cache of earlier keys works.
extern const MaskDef mask_causal = {
    .name = "causal",
    .formula = "j ≤ i + Lk − Lq",
    .aligns_at_end = true,
    .range =
        [](const MaskTerm&, const MaskContext& c, int64_t, int64_t i) {
          return KeyRange{0, std::clamp<int64_t>(i + c.n.Lk - c.n.Lq + 1, 0, c.n.Lk)};
        },
    .range_by_batch = false,
    .prefix = true,
};

Mask masks::causal() { return {{{.def = &mask_causal}}}; }

}  // namespace fovea
