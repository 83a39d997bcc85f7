#include "attention/def.h"
#include "fovea/ops.h"

namespace fovea {
namespace {

// Norms are √(x·x + ε): the cosine with a zero vector is 0, and its gradient finite.
constexpr double kEpsilon = 1e-12;

Tensor normalised(const Tensor& x) {
  return x / sqrt(sum(square(x), {-1}, Keep::yes) + static_cast<float>(kEpsilon));
}

}  // namespace

extern const ScoreDef score_cosine = {
    .name = "cosine",
    .formula = "β · q·k / (‖q‖ ‖k‖)",
    .parameters = {{.name = "beta?", .shape = {"H?"}, .start = Start::one}},  // 0 would silence it
    .equal_widths = true,
    .queries =
        [](const Tensor& q, const Tensors& p) {
          const Tensor unit = normalised(q);
          return p.contains("beta") ? unit * p.at("beta").reshape({-1, 1, 1}) : unit;  // [H,1,1]
        },
    .keys = [](const Tensor& k, const Tensors&) { return normalised(k); },
    .reference = []<class T>(const Pair<T>& x) -> T {
      const T cosine =
          dot(x.q, x.k) / (sqrt(dot(x.q, x.q) + kEpsilon) * sqrt(dot(x.k, x.k) + kEpsilon));
      const auto beta = x.p.find("beta");
      return beta == x.p.end() ? cosine : beta->second.of_head(x.h) * cosine;
    },
};

Score scores::cosine(Tensor beta) {
  return {.def = &score_cosine, .parameters = only_defined({{"beta", beta}})};
}

}  // namespace fovea
