#include "attention/def.h"
#include "fovea/ops.h"

namespace fovea {
namespace {

// elu(x) + 1 is x + 1 above 0 and eˣ below: positive features, for linear attention.
Tensor features(const Tensor& x, const Tensors&) { return elu(x) + 1.0f; }

}  // namespace

extern const ScoreDef score_elu_dot = {
    .name = "elu_dot",
    .formula = "(elu(q) + 1)·(elu(k) + 1)",
    .equal_widths = true,
    .queries = features,
    .keys = features,
    .reference = []<class T>(const Pair<T>& x) -> T {
      const auto feature = [](const T& y) { return y > 0 ? y + 1 : exp(y); };
      T score = 0;
      for (size_t d = 0; d < x.q.size(); ++d) score += feature(x.q[d]) * feature(x.k[d]);
      return score;
    },
};

Score scores::elu_dot() { return {.def = &score_elu_dot}; }

}  // namespace fovea
