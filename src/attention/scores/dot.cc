#include "attention/def.h"

namespace fovea {

extern const ScoreDef score_dot = {
    .name = "dot",
    .formula = "q·k",
    .equal_widths = true,
    .reference = []<class T>(const Pair<T>& x) -> T { return dot(x.q, x.k); },
};

Score scores::dot() { return {.def = &score_dot}; }

}  // namespace fovea
