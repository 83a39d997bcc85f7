#include <cmath>

#include "fovea/layers.h"
#include "fovea/ops.h"
#include "nn/dropout.h"

namespace fovea::nn {
namespace {

// What blocks add to x is, in sum, as large at the start as what one adds.
float gain_of(const BlockConfig& c) {
  return c.order == NormOrder::post ? 1.0f : 1.0f / std::sqrt(2.0f * static_cast<float>(c.of));
}

Mlp mlp(Weights& w, const std::string& name, const BlockConfig& c) {
  const int64_t W = c.heads.width, M = c.mlp_width > 0 ? c.mlp_width : 4 * W;
  const auto layer = [&](const std::string& part, int64_t in, int64_t out, float gain) {
    Linear l{.weight = w.add(name + part + ".weight", {out, in}, c.heads.init, gain)};
    if (c.mlp_bias.value_or(c.heads.bias) == WithBias::yes)
      l.bias = w.add(name + part + ".bias", {out}, Init::zeros);
    return l;
  };
  const int64_t up = is_gated(c.activation) ? 2 * M : M;
  return {c.activation, layer(".up", W, up, 1.0f), layer(".down", M, W, gain_of(c))};
}

}  // namespace

const char* name_of(NormOrder o) {
  static constexpr const char* kNames[] = {"post", "pre", "around"};
  return kNames[static_cast<int>(o)];
}

Block block(Weights& w, const std::string& name, const BlockConfig& c) {
  Block b{.config = c};
  const int64_t W = c.heads.width;
  HeadsConfig heads = c.heads;
  heads.out_gain *= gain_of(c);
  b.self = multi_head(w, name + ".self", heads);
  const auto norm_of = [&](const char* part) { return norm(w, name + part, c.norm, W, c.epsilon); };
  b.self_norm = norm_of(".self_norm");
  if (c.cross) {
    if (c.order == NormOrder::around) throw Error("block", "norms around a look at a source");
    b.cross = multi_head(w, name + ".cross", heads, Looks::elsewhere);
    b.cross_norm = norm_of(".cross_norm");
  }
  b.mlp = mlp(w, name + ".mlp", c);
  b.mlp_norm = norm_of(".mlp_norm");
  if (c.order == NormOrder::around) {
    b.self_after = norm_of(".self_after");
    b.mlp_after = norm_of(".mlp_after");
  }
  return b;
}

Tensor Block::operator()(const Tensor& x, const BlockPass& pass) const {
  const Dropout drop = pass.noise;
  struct Norms {
    const Norm &own, &after;
  };
  const auto residual = [&](const Tensor& y, const Norms& n, const char* place, const auto& f) {
    if (config.order == NormOrder::post) return n.own(y + dropped(f(y), drop.at(place)));
    const Tensor made = f(n.own(y));
    const bool around = config.order == NormOrder::around;
    return y + dropped(around ? n.after(made) : made, drop.at(place));
  };
  const auto heads_pass = [&](HeadsPass p, const char* place) {
    p.noise = drop.at(place).noise();
    return p;
  };
  Tensor y = residual(x, {self_norm, self_after}, "self", [&](const Tensor& in) {
    return self.self(in, heads_pass(pass.self, "self weights"));
  });
  if (config.cross) {
    if (pass.source == nullptr) throw Error("block", "it looks at a source, and was given none");
    y = residual(y, {cross_norm, cross_norm}, "cross", [&](const Tensor& in) {
      return cross.cross(in, *pass.source, heads_pass(pass.cross, "cross weights"));
    });
  }
  return residual(y, {mlp_norm, mlp_after}, "mlp",
                  [&](const Tensor& in) { return mlp(in, drop.at("mlp inside").noise()); });
}

}  // namespace fovea::nn
