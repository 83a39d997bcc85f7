#include "train/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tensor/impl.h"

namespace fovea::train {

Tensors distinct(const char* call, const Tensors& parameters) {
  Tensors kept;
  std::set<const void*> seen;
  for (const auto& [name, tensor] : parameters) {
    if (!tensor || tensor.dtype() != DType::f32 || !tensor.is_contiguous()) {
      throw Error(call, fmt::format("parameter '{}' must be a contiguous f32 tensor", name));
    }
    if (seen.insert(tensor.impl()).second) kept.emplace(name, tensor);
  }
  return kept;
}

const kernels::Kernels& device_of(const char* call, const Tensors& parameters) {
  const Device device = parameters.empty() ? Device::cpu : parameters.begin()->second.device();
  for (const auto& [name, tensor] : parameters) {
    if (tensor.device() == device) continue;
    throw Error(call, fmt::format("parameter '{}' is on {}, another on {}", name,
                                  name_of(tensor.device()), name_of(device)));
  }
  return kernels::on(device);
}

std::vector<kernels::Values> gradients_of(const Tensors& parameters) {
  std::vector<kernels::Values> values;
  for (const auto& [name, tensor] : parameters) {
    Tensor g = tensor.grad();
    if (!g) continue;
    if (!g.is_contiguous()) {
      g = g.contiguous();
      Tensor(tensor).set_grad(g);
    }
    values.push_back({changed(g), g.numel()});
  }
  return values;
}

void expect_like(const Tensors& from, const Tensors& to, const std::string& source) {
  for (const auto& [name, tensor] : from) {
    const auto found = to.find(name);
    if (found == to.end()) throw Error("train", fmt::format("{}: unknown '{}'", source, name));
    if (tensor.shape() != found->second.shape() || tensor.dtype() != found->second.dtype()) {
      throw Error("train",
                  fmt::format("{}: '{}' must be {} {}, found {} {}", source, name,
                              name_of(found->second.dtype()), to_string(found->second.shape()),
                              name_of(tensor.dtype()), to_string(tensor.shape())));
    }
  }
  for (const auto& [name, tensor] : to) {
    if (!from.contains(name)) throw Error("train", fmt::format("{}: no '{}'", source, name));
  }
}

void copy_values(const Tensors& from, const Tensors& to, const std::string& source) {
  expect_like(from, to, source);
  const NoGrad off;
  for (const auto& [name, tensor] : to) Tensor(tensor).copy_(from.at(name));
}

}  // namespace fovea::train
