#include <cmath>

#include "attention/def.h"

// A mask with a number of its own, in one file: every S-th key, counted from where the query
// stands.
namespace fovea {

extern const MaskDef mask_strided = {
    .name = "strided",
    .formula = "S divides j − p, p = i, or i + Lk − Lq together with causal",
    .numbers = {{.name = "stride", .example = 4, .least = 1}},
    .allows =
        [](const MaskTerm& t, const MaskContext& c, int64_t, int64_t, int64_t i, int64_t j) {
          const int64_t p = c.at_end ? i + c.n.Lk - c.n.Lq : i;
          return (j - p) % std::llround(t.numbers[0]) == 0;
        },
};

}  // namespace fovea
