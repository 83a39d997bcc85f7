#include <cmath>

#include "fovea/layers.h"
#include "fovea/ops.h"
#include "nn/dropout.h"
#include "nn/rows.h"

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

namespace {

struct Norms {
  const Norm &own, &after;
};

Tensor input_of(const Block& b, const Tensor& x, const Norm& own) {
  return b.config.order == NormOrder::post ? x : own(x);
}

// x and what was made of input_of(x).
Tensor with_residual(const Block& b, const Tensor& x, const Tensor& made, const Norms& n,
                     const Dropout& drop) {
  if (b.config.order == NormOrder::post) return n.own(x + dropped(made, drop));
  return x + dropped(b.config.order == NormOrder::around ? n.after(made) : made, drop);
}

HeadsPass with_noise(HeadsPass p, const Noise& noise) {
  p.noise = noise;
  return p;
}

}  // namespace

Tensor self_input(const Block& b, const Tensor& x) { return input_of(b, x, b.self_norm); }

Noise noise_of_weights(const BlockPass& pass) {
  return Dropout(pass.noise).at("self weights").noise();
}

Tensor after_self(const Block& b, const Tensor& x, const Tensor& made, const BlockPass& pass) {
  const Dropout drop = pass.noise;
  Tensor y = with_residual(b, x, made, {b.self_norm, b.self_after}, drop.at("self"));
  if (b.config.cross) {
    if (pass.source == nullptr) throw Error("block", "it looks at a source, and was given none");
    const Tensor seen = b.cross.cross(input_of(b, y, b.cross_norm), *pass.source,
                                      with_noise(pass.cross, drop.at("cross weights").noise()));
    y = with_residual(b, y, seen, {b.cross_norm, b.cross_norm}, drop.at("cross"));
  }
  const Tensor done = b.mlp(input_of(b, y, b.mlp_norm), drop.at("mlp inside").noise());
  return with_residual(b, y, done, {b.mlp_norm, b.mlp_after}, drop.at("mlp"));
}

Tensor Block::operator()(const Tensor& x, const BlockPass& pass) const {
  const Tensor made =
      self.self(self_input(*this, x), with_noise(pass.self, noise_of_weights(pass)));
  return after_self(*this, x, made, pass);
}

}  // namespace fovea::nn
