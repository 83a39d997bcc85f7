#include "attention/def.h"
#include "attention/layout.h"

namespace fovea {

extern const ScoreDef score_additive = {
    .name = "additive",
    .formula = "uᵀ tanh(W_q q + W_k k + b)",
    .parameters = {{"w_q", {"A", "Dq"}}, {"w_k", {"A", "Dk"}}, {"u", {"A"}}, {"b?", {"A"}}},
    .form = Form::additive,
    .queries =
        [](const Tensor& q, const Tensors& p) {
          return project(q, p.at("w_q"), p.contains("b") ? p.at("b") : Tensor());  // [B,H,Lq,A]
        },
    .keys = [](const Tensor& k, const Tensors& p) { return project(k, p.at("w_k")); },
    .u = [](const Tensors& p) { return p.at("u"); },
    .reference = []<class T>(const Pair<T>& x) -> T {
      const ScalarParameter<T>&w_q = x.p.at("w_q"), &w_k = x.p.at("w_k"), &u = x.p.at("u");
      const auto b = x.p.find("b");
      T score = 0;
      for (int64_t a = 0; a < u.size(); ++a) {
        T sum = dot(w_q.row(a), x.q) + dot(w_k.row(a), x.k);
        if (b != x.p.end()) sum += b->second[a];
        score += u[a] * tanh(sum);
      }
      return score;
    },
};

Score scores::additive(Tensor w_q, Tensor w_k, Tensor u, Tensor b) {
  return {.def = &score_additive,
          .parameters = only_defined({{"w_q", w_q}, {"w_k", w_k}, {"u", u}, {"b", b}})};
}

}  // namespace fovea
