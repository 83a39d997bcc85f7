#include "attention/def.h"

namespace fovea {

// The key's position stands in for its content.
extern const ScoreDef score_location = {
    .name = "location",
    .formula = "(W q)_j",
    .parameters = {{"w_loc", {"Lmax", "Dq"}}},
    .keys =
        [](const Tensor& k, const Tensors& p) {
          const Tensor rows = p.at("w_loc").slice(0, 0, k.size(2));  // [Lk,Dq]
          return rows.expand({k.size(0), k.size(1), k.size(2), rows.size(1)});
        },
    .reference = []<class T>(const Pair<T>& x) -> T { return dot(x.p.at("w_loc").row(x.j), x.q); },
};

Score scores::location(Tensor w_loc) {
  return {.def = &score_location, .parameters = only_defined({{"w_loc", w_loc}})};
}

}  // namespace fovea
