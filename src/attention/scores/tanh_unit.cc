#include "attention/def.h"
#include "fovea/ops.h"

namespace fovea {

// One scalar a region y (the key), given the context C (the query): additive with A=1 and u=1.
extern const ScoreDef score_tanh_unit = {
    .name = "tanh_unit",
    .formula = "tanh(w_y·k + w_c·q)",
    .parameters = {{"w_y", {"Dk"}}, {"w_c", {"Dq"}}},
    .lower = [](const Tensor& q, const Tensor& k, const Tensors& p) -> Lowered {
      return AdditiveForm{.a = matmul(q, p.at("w_c").unsqueeze(1)),      // [B,H,Lq,1]
                          .kappa = matmul(k, p.at("w_y").unsqueeze(1)),  // [B,Hk,Lk,1]
                          .u = Tensor::full({1}, 1.0f)};
    },
    .reference = []<class T>(const Pair<T>& x) -> T {
      return tanh(dot(x.p.at("w_y").data, x.k) + dot(x.p.at("w_c").data, x.q));
    },
};

}  // namespace fovea
