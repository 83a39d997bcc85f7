#include "attention/def.h"
#include "fovea/ops.h"

namespace fovea {

// Luong's predictive alignment. S is the source length: lengths[b] where the mask has them, or Lk.
extern const MaskDef mask_local_p = {
    .name = "local_p",
    .formula = "|j − p| ≤ W, p = S·sigmoid(u_pᵀ tanh(W_p q)), weights · exp(−(j−p)²/(2(W/2)²))",
    .parameters = {{"w_p", {"A", "Dq"}}, {"u_p", {"A"}}},
    .numbers = {{.name = "width", .example = 8, .least = 1}},
    .center =
        [](const Tensor& q, const MaskTerm& t, const MaskContext& c) {
          const Tensor hidden =
              tanh(matmul(q, t.parameters.at("w_p").transpose(0, 1)));  // [B,H,Lq,A]
          const Tensor logit = matmul(hidden, t.parameters.at("u_p").unsqueeze(1)).squeeze(3);
          const Tensor length = c.lengths ? c.lengths.to(DType::f32).reshape({c.n.B, 1, 1})
                                          : Tensor::scalar(static_cast<float>(c.n.Lk));
          return sigmoid(logit) * length;  // [B,H,Lq]
        },
    .center_reference = []<class T>(const CenterArgs<T>& x) -> T {
      const ScalarParameter<T>&w_p = x.p.at("w_p"), &u_p = x.p.at("u_p");
      T logit = 0;
      for (int64_t a = 0; a < u_p.size(); ++a) logit += u_p[a] * tanh(dot(w_p.row(a), x.q));
      return x.length * sigmoid(logit);
    },
};

Mask masks::local_p(int64_t w, Tensor w_p, Tensor u_p, bool renormalise) {
  return {{{.def = &mask_local_p,
            .parameters = only_defined({{"w_p", w_p}, {"u_p", u_p}}),
            .numbers = {static_cast<double>(w)},
            .renormalise = renormalise}}};
}

}  // namespace fovea
