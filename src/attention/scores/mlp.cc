#include "attention/def.h"
#include "attention/layout.h"
#include "fovea/ops.h"

namespace fovea {
namespace {

// With A = 0 nothing is left of a side; a row keeps a place, which nobody reads.
Tensor with_width(const Tensor& rows) {
  if (rows.size(3) > 0) return rows;
  return Tensor::zeros({rows.size(0), rows.size(1), rows.size(2), 1});
}

}  // namespace

extern const ScoreDef score_mlp = {
    .name = "mlp",
    .formula = "uᵀ tanh(W_2 tanh(W_1 [q; k] + b_1) + b_2)",
    .parameters = {{"w_1", {"A", "Dq+Dk"}},
                   {"b_1", {"A"}},
                   {"w_2", {"A2", "A"}},
                   {"b_2", {"A2"}},
                   {"u", {"A2"}}},
    .form = Form::pairs,
    // W_1 [q; k] is a part of each side: of the width of a pair, W_2 alone is left.
    .queries =
        [](const Tensor& q, const Tensors& p) {
          return with_width(project(q, p.at("w_1").slice(1, 0, q.size(3))));  // [B,H,Lq,A]
        },
    .keys =
        [](const Tensor& k, const Tensors& p) {
          const Tensor& w = p.at("w_1");
          return with_width(project(k, w.slice(1, w.size(1) - k.size(3), w.size(1)), p.at("b_1")));
        },
    .pairs =
        [](const Tensor& q_rows, const Tensor& k_rows, const Tensors& p) {
          Tensor one = tanh(q_rows + k_rows);  // [P,A]
          if (p.at("w_2").size(1) == 0) one = one.slice(1, 0, 0);
          const Tensor two = tanh(project(one, p.at("w_2"), p.at("b_2")));
          return matmul(two, p.at("u").unsqueeze(1)).squeeze(1);  // [P]
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

Score scores::mlp(Tensor w_1, Tensor b_1, Tensor w_2, Tensor b_2, Tensor u) {
  return {.def = &score_mlp,
          .parameters =
              only_defined({{"w_1", w_1}, {"b_1", b_1}, {"w_2", w_2}, {"b_2", b_2}, {"u", u}})};
}

}  // namespace fovea
