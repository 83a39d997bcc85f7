#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "fovea/train.h"
#include "tensor/impl.h"
#include "train/weights.h"

namespace fovea::train {
namespace {

void check(const OptimizerConfig& c) {
  const auto expect = [](bool holds, const char* what, float found) {
    if (!holds) throw Error("Optimizer", fmt::format("{}, found {}", what, found));
  };
  expect(c.beta1 >= 0 && c.beta1 < 1, "beta1 must be in [0, 1)", c.beta1);
  expect(c.beta2 >= 0 && c.beta2 < 1, "beta2 must be in [0, 1)", c.beta2);
  expect(c.epsilon > 0, "epsilon must be positive", c.epsilon);
  expect(c.momentum >= 0 && c.momentum < 1, "momentum must be in [0, 1)", c.momentum);
  const auto expect_decay = [&](float decay) {
    expect(decay >= 0 && std::isfinite(decay), "weight_decay must be 0 or more", decay);
  };
  expect_decay(c.weight_decay);
  for (const ParameterGroup& g : c.groups) {
    if (!g.has) throw Error("Optimizer", "a group must say which parameters it has");
    expect(g.rate >= 0 && std::isfinite(g.rate), "a group's rate must be 0 or more", g.rate);
    if (g.weight_decay) expect_decay(*g.weight_decay);
  }
}

size_t group_of(const std::vector<ParameterGroup>& groups, const std::string& name) {
  size_t g = 0;
  while (g < groups.size() && !groups[g].has(name)) ++g;
  return g;
}

// The settings of group g; past the last, the optimizer's own.
struct Pace {
  float rate, weight_decay;
};
Pace pace_of(const OptimizerConfig& c, size_t g, float rate) {
  if (g == c.groups.size()) return {rate, c.weight_decay};
  return {rate * c.groups[g].rate, c.groups[g].weight_decay.value_or(c.weight_decay)};
}

// Adam and AdamW, with the moments' start from 0 corrected for at step t.
kernels::AdamUpdate adam_update(const OptimizerConfig& c, int64_t t, Pace pace) {
  const double steps = static_cast<double>(t);
  const double correction1 = 1 - std::pow(static_cast<double>(c.beta1), steps);
  const double correction2 = 1 - std::pow(static_cast<double>(c.beta2), steps);
  kernels::AdamUpdate by{c.beta1, c.beta2, c.epsilon, static_cast<float>(pace.rate / correction1),
                         static_cast<float>(1 / std::sqrt(correction2))};
  if (c.method == Method::adamw) {
    by.keep = static_cast<float>(1 - static_cast<double>(pace.rate) * pace.weight_decay);
  } else {
    by.decay = pace.weight_decay;
  }
  return by;
}

}  // namespace

Optimizer::Optimizer(const OptimizerConfig& config, Tensors parameters)
    : config_(config), parameters_(config.groups.size() + 1) {
  check(config_);
  for (const auto& [name, tensor] : distinct("Optimizer", parameters)) {
    parameters_[group_of(config_.groups, name)].emplace(name, tensor);
    moments_.emplace("first/" + name, zeros_at(tensor, tensor.shape()));
    if (config_.method != Method::sgd) {
      moments_.emplace("second/" + name, zeros_at(tensor, tensor.shape()));
    }
  }
}

void Optimizer::step(float rate, float gradient_scale) {
  ++steps_;
  const auto moment = [&](const std::string& name) {
    const auto found = moments_.find(name);
    return found == moments_.end() ? nullptr : changed(found->second);
  };
  for (size_t g = 0; g < parameters_.size(); ++g) {
    std::vector<kernels::Learned> learned;
    std::vector<Tensor> gradients;
    for (auto& [name, tensor] : parameters_[g]) {
      if (!tensor.grad()) continue;
      gradients.push_back(tensor.grad().contiguous());
      learned.push_back({changed(tensor), raw(gradients.back()), moment("first/" + name),
                         moment("second/" + name), tensor.numel()});
    }
    if (learned.empty()) continue;
    const kernels::Kernels& kernels = device_of("Optimizer", parameters_[g]);
    const Pace pace = pace_of(config_, g, rate);
    if (config_.method == Method::sgd) {
      kernels.descend(learned, {config_.momentum, pace.rate, pace.weight_decay, gradient_scale});
    } else {
      kernels::AdamUpdate by = adam_update(config_, steps_, pace);
      by.scale = gradient_scale;
      kernels.adam(learned, by);
    }
  }
}

Tensors Optimizer::state() const {
  Tensors state = moments_;
  state.emplace("step", Tensor::from_ids(std::span(&steps_, 1), {}));
  return state;
}

void Optimizer::load(const Tensors& state) {
  Tensors moments = state;
  const auto step = moments.find("step");
  if (step == moments.end() || step->second.dtype() != DType::i64 || step->second.numel() != 1) {
    throw Error("Optimizer", "the state must have an i64 'step' of one element");
  }
  const int64_t steps = step->second.to_ids()[0];
  moments.erase(step);
  copy_values(moments, moments_, "the optimizer's state");
  steps_ = steps;
}

float clip_by_norm(const Tensors& parameters, float largest) {
  const Tensors weights = distinct("clip_by_norm", parameters);
  const std::vector<kernels::Values> gradients = gradients_of(weights);
  const kernels::Kernels& kernels = device_of("clip_by_norm", weights);
  const double norm = std::sqrt(kernels.squared_norm(gradients));
  if (largest > 0 && norm > largest) kernels.scale(gradients, static_cast<float>(largest / norm));
  return static_cast<float>(norm);
}

int64_t memory_of(int64_t weights, const TrainConfig& c) {
  const int64_t moments = c.optimizer.method == Method::sgd ? 1 : 2;
  const int64_t sums = std::bit_width(static_cast<uint64_t>(std::max<int64_t>(c.batches, 1) - 1));
  const int64_t copies = 2 + moments + (c.average > 0 ? 1 : 0) + sums;
  return weights * copies * static_cast<int64_t>(sizeof(float));
}

}  // namespace fovea::train
