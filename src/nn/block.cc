#include <cmath>

#include "fovea/layers.h"
#include "fovea/ops.h"
#include "nn/dropout.h"

namespace fovea::nn {
namespace {

// What blocks add to x is, in sum, as large at the start as what one adds.
float gain_of(const BlockConfig& c) {
  return c.order == NormOrder::pre ? 1.0f / std::sqrt(2.0f * static_cast<float>(c.of)) : 1.0f;
}

Mlp mlp(Weights& w, const std::string& name, const BlockConfig& c) {
  const int64_t W = c.heads.width, M = c.mlp_width > 0 ? c.mlp_width : 4 * W;
  const auto layer = [&](const std::string& part, int64_t in, int64_t out, float gain) {
    Linear l{.weight = w.add(name + part + ".weight", {out, in}, c.heads.init, gain)};
    if (c.heads.bias == WithBias::yes) l.bias = w.add(name + part + ".bias", {out}, Init::zeros);
    return l;
  };
  const int64_t up = c.activation == Activation::swiglu ? 2 * M : M;
  return {c.activation, layer(".up", W, up, 1.0f), layer(".down", M, W, gain_of(c))};
}

}  // namespace

const char* name_of(NormOrder o) { return o == NormOrder::post ? "post" : "pre"; }

Block block(Weights& w, const std::string& name, const BlockConfig& c) {
  Block b{.config = c};
  const int64_t W = c.heads.width;
  HeadsConfig heads = c.heads;
  heads.out_gain *= gain_of(c);
  b.self = multi_head(w, name + ".self", heads);
  b.self_norm = norm(w, name + ".self_norm", c.norm, W);
  if (c.cross) {
    b.cross = multi_head(w, name + ".cross", heads, Looks::elsewhere);
    b.cross_norm = norm(w, name + ".cross_norm", c.norm, W);
  }
  b.mlp = mlp(w, name + ".mlp", c);
  b.mlp_norm = norm(w, name + ".mlp_norm", c.norm, W);
  return b;
}

// pre: x + f(norm(x)); post: norm(x + f(x))
Tensor Block::operator()(const Tensor& x, const BlockPass& pass) const {
  const Dropout drop = pass.noise;
  const auto residual = [&](const Tensor& y, const Norm& n, const char* place, const auto& f) {
    if (config.order == NormOrder::pre) return y + dropped(f(n(y)), drop.at(place));
    return n(y + dropped(f(y), drop.at(place)));
  };
  const auto heads_pass = [&](HeadsPass p, const char* place) {
    p.noise = drop.at(place).noise();
    return p;
  };
  Tensor y = residual(x, self_norm, "self", [&](const Tensor& in) {
    return self.self(in, heads_pass(pass.self, "self weights"));
  });
  if (config.cross) {
    if (pass.source == nullptr) throw Error("block", "it looks at a source, and was given none");
    y = residual(y, cross_norm, "cross", [&](const Tensor& in) {
      return cross.cross(in, *pass.source, heads_pass(pass.cross, "cross weights"));
    });
  }
  return residual(y, mlp_norm, "mlp",
                  [&](const Tensor& in) { return mlp(in, drop.at("mlp inside").noise()); });
}

}  // namespace fovea::nn
