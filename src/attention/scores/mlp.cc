#include "attention/def.h"
#include "fovea/ops.h"

namespace fovea {

extern const ScoreDef score_mlp = {
    .name = "mlp",
    .formula = "uᵀ tanh(W_2 tanh(W_1 [q; k] + b_1) + b_2)",
    .parameters = {{"w_1", {"A", "Dq+Dk"}},
                   {"b_1", {"A"}},
                   {"w_2", {"A2", "A"}},
                   {"b_2", {"A2"}},
                   {"u", {"A2"}}},
    .lower = [](const Tensor&, const Tensor&, const Tensors& p) -> Lowered {
      return PairsForm{[p](const Tensor& q_rows, const Tensor& k_rows) {
        const Tensor joined = concatenate({q_rows, k_rows}, 1);  // [P,Dq+Dk]
        const Tensor one = tanh(matmul(joined, p.at("w_1").transpose(0, 1)) + p.at("b_1"));
        const Tensor two = tanh(matmul(one, p.at("w_2").transpose(0, 1)) + p.at("b_2"));
        return matmul(two, p.at("u").unsqueeze(1)).squeeze(1);  // [P]
      }};
    },
    .reference = []<class T>(const Pair<T>& x) -> T {
      const auto layer = [](const ScalarParameter<T>& w, const ScalarParameter<T>& b,
                            const std::vector<T>& in) {
        std::vector<T> out;
        for (int64_t a = 0; a < b.size(); ++a) out.push_back(tanh(dot(w.row(a), in) + b[a]));
        return out;
      };
      std::vector<T> joined(x.q.begin(), x.q.end());
      joined.insert(joined.end(), x.k.begin(), x.k.end());
      const std::vector<T> one = layer(x.p.at("w_1"), x.p.at("b_1"), joined);
      const std::vector<T> two = layer(x.p.at("w_2"), x.p.at("b_2"), one);
      return dot(x.p.at("u").data, two);
    },
};

}  // namespace fovea
