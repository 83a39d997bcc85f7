#include "fovea/nn.h"
#include "fovea/ops.h"
#include "tensor/stepped_linear.h"

namespace fovea::nn {

Tensor Linear::operator()(const Tensor& x) const { return fovea::linear(x, weight, bias); }

Linear linear(Weights& weights, const std::string& name, int64_t in, int64_t out, WithBias bias) {
  Linear layer;
  layer.weight = weights.add(name + ".weight", {out, in}, Init::uniform);
  if (bias == WithBias::yes) layer.bias = weights.add(name + ".bias", {out}, Init::zeros);
  return layer;
}

Tensor Embedding::operator()(const Tensor& ids) const { return fovea::embedding(table, ids); }

Embedding embedding(Weights& weights, const std::string& name, int64_t vocabulary, int64_t width) {
  return {weights.add(name + ".weight", {vocabulary, width}, Init::normal)};
}

SteppedLinear::SteppedLinear(const Linear& layer)
    : steps_(std::make_shared<LinearSteps>(LinearWeights{layer.weight, layer.bias})) {}

Tensor SteppedLinear::operator()(const Tensor& x, const Tensor& addend) {
  return (*steps_)(x, addend);
}

}  // namespace fovea::nn
