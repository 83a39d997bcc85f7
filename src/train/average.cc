#include "train/average.h"

#include <algorithm>
#include <map>
#include <vector>

#include "tensor/impl.h"
#include "train/weights.h"

namespace fovea::train {

Average::Average(const Tensors& parameters, float decay)
    : decay_(decay), weights_(distinct("train", parameters)) {
  if (!on()) {
    values_ = parameters;
    return;
  }
  std::map<const void*, Tensor> copies;
  for (const auto& [name, tensor] : weights_) copies[tensor.impl()] = tensor.detach().clone();
  for (const auto& [name, tensor] : parameters) values_[name] = copies.at(tensor.impl());
}

void Average::update(int64_t step) {
  if (!on()) return;
  const double t = static_cast<double>(step);
  const float d = static_cast<float>(std::min<double>(decay_, (1 + t) / (10 + t)));
  std::vector<kernels::Averaged> all;
  for (const auto& [name, tensor] : weights_) {
    all.push_back({changed(values_.at(name)), raw(tensor), tensor.numel()});
  }
  device_of("train", weights_).move_average(all, d);
}

void Average::swap() {
  if (!on()) return;
  for (auto& [name, tensor] : weights_) {
    fovea::on(tensor).swap({changed(tensor), tensor.numel()}, changed(values_.at(name)));
  }
}

}  // namespace fovea::train
