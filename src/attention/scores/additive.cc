#include "attention/def.h"
#include "fovea/ops.h"

namespace fovea {

extern const ScoreDef score_additive = {
    .name = "additive",
    .formula = "uᵀ tanh(W_q q + W_k k + b)",
    .parameters = {{"w_q", {"A", "Dq"}}, {"w_k", {"A", "Dk"}}, {"u", {"A"}}, {"b?", {"A"}}},
    .lower = [](const Tensor& q, const Tensor& k, const Tensors& p) -> Lowered {
      Tensor a = matmul(q, p.at("w_q").transpose(0, 1));  // [B,H,Lq,A]
      if (p.contains("b")) a = a + p.at("b");
      const Tensor kappa = matmul(k, p.at("w_k").transpose(0, 1));  // [B,Hk,Lk,A]
      return AdditiveForm{.a = a, .kappa = kappa, .u = p.at("u")};
    },
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

}  // namespace fovea
