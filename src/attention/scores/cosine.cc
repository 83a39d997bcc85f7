#include <limits>

#include "attention/def.h"
#include "fovea/ops.h"

namespace fovea {
namespace {

// ‖x‖ is √(x·x + ε), no less than 10⁻⁶: the cosine with a zero vector is 0, its gradient finite,
// and vectors about as short as that count for less.
constexpr double kEpsilon = 1e-12;

// Rows whose x·x overflows are made 2⁹⁶ times smaller first: no finite one does so then.
Tensor normalised(const Tensor& x) {
  constexpr float kSmaller = 0x1p-96f, kInfinite = std::numeric_limits<float>::infinity();
  const Tensor squares = sum(square(x), {-1}, Keep::yes);
  const auto epsilon = static_cast<float>(kEpsilon);
  if (squares.numel() == 0 || max(squares.detach()).item() < kInfinite) {
    return x / sqrt(squares + epsilon);
  }
  const Tensor one = Tensor::full(squares.shape(), 1.0f);
  const Tensor overflows = equal(squares.detach(), one * kInfinite);
  const Tensor small = x * where(overflows, one * kSmaller, one);
  return small /
         sqrt(sum(square(small), {-1}, Keep::yes) + where(overflows, one * 0.0f, one * epsilon));
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
