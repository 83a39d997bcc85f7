#include "attention/def.h"

namespace fovea {

extern const MaskDef mask_everything = {
    .name = "everything",
    .formula = "every key",
    .range =
        [](const MaskTerm&, const MaskContext& c, int64_t, int64_t) {
          return KeyRange{0, c.n.Lk};
        },
    .range_by_batch = false,
    .prefix = true,
};

Mask masks::everything() { return {}; }

}  // namespace fovea
