#include "attention/def.h"
#include "fovea/ops.h"

// A score that the library does not have, in one file: near in space is near in attention. Written
// out, −‖q − k‖²/2 = q·k − ‖q‖²/2 − ‖k‖²/2, a dot product of rows two wider, so it runs fused.
namespace fovea {
namespace {

Tensor half_square(const Tensor& x) { return -0.5f * sum(square(x), {-1}, Keep::yes); }  // [..,1]

Tensor ones(const Tensor& x) { return Tensor::full({x.size(0), x.size(1), x.size(2), 1}, 1.0f); }

}  // namespace

extern const ScoreDef score_gaussian = {
    .name = "gaussian",
    .formula = "−‖q − k‖²/2",
    .equal_widths = true,
    .form = Form::dot,
    .queries =
        [](const Tensor& q, const Tensors&) {
          return concatenate({q, half_square(q), ones(q)}, 3);  // [B,H,Lq,D+2]
        },
    .keys =
        [](const Tensor& k, const Tensors&) {
          return concatenate({k, ones(k), half_square(k)}, 3);  // [B,Hk,Lk,D+2]
        },
    .reference = []<class T>(const Pair<T>& x) -> T {
      T squares = 0;
      for (size_t d = 0; d < x.q.size(); ++d) squares += (x.q[d] - x.k[d]) * (x.q[d] - x.k[d]);
      return -squares / 2;
    },
};

}  // namespace fovea
