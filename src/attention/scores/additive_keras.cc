#include "attention/def.h"

namespace fovea {

extern const ScoreDef score_additive_keras = {
    .name = "additive_keras",
    .also = "additive",
    .formula = "uᵀ tanh(q + k)",
    .parameters = {{"u", {"Dq"}}},
    .equal_widths = true,
    .form = Form::additive,
    .u = [](const Tensors& p) { return p.at("u"); },
    .reference = []<class T>(const Pair<T>& x) -> T {
      const ScalarParameter<T>& u = x.p.at("u");
      T score = 0;
      for (int64_t d = 0; d < u.size(); ++d) score += u[d] * tanh(x.q[d] + x.k[d]);
      return score;
    },
};

Score scores::additive_keras(Tensor u) {
  return {.def = &score_additive_keras, .parameters = only_defined({{"u", u}})};
}

}  // namespace fovea
