#include "fovea/layers.h"
#include "fovea/ops.h"
#include "nn/dropout.h"

namespace fovea::nn {

const char* name_of(NormKind k) { return k == NormKind::layer ? "layer" : "rms"; }
const char* name_of(Activation a) {
  static constexpr const char* kNames[] = {"relu", "gelu",  "gelu_tanh", "swiglu",
                                           "silu", "geglu", "geglu_tanh"};
  return kNames[static_cast<int>(a)];
}

bool is_gated(Activation a) {
  return a == Activation::swiglu || a == Activation::geglu || a == Activation::geglu_tanh;
}

Tensor Norm::operator()(const Tensor& x) const {
  return kind == NormKind::layer ? layer_norm(x, weight, bias, epsilon)
                                 : rms_norm(x, weight, epsilon);
}

Norm norm(Weights& w, const std::string& name, NormKind kind, int64_t width, float epsilon) {
  Norm n{.kind = kind, .weight = w.add(name + ".weight", {width}, Init::ones), .epsilon = epsilon};
  if (kind == NormKind::layer) n.bias = w.add(name + ".bias", {width}, Init::zeros);
  return n;
}

namespace {

Tensor curved(Activation a, const Tensor& x) {
  switch (a) {
    case Activation::relu:
      return relu(x);
    case Activation::gelu:
    case Activation::geglu:
      return gelu(x);
    case Activation::gelu_tanh:
    case Activation::geglu_tanh:
      return gelu_tanh(x);
    case Activation::silu:
    case Activation::swiglu:
      break;
  }
  return silu(x);
}

Tensor activated(Activation a, const Tensor& x) {
  if (!is_gated(a)) return curved(a, x);
  const int64_t M = x.size(-1) / 2;
  const std::vector<Tensor> halves = split(x, {M, M}, -1);
  return curved(a, halves[0]) * halves[1];
}

}  // namespace

Tensor Mlp::operator()(const Tensor& x, const Noise& noise) const {
  return down(dropped(activated(activation, up(x)), noise));
}

}  // namespace fovea::nn
