#pragma once

#include <variant>

#include "fovea/nn.h"
#include "tasks/run_folder.h"

// The one way from a run's folder to its model.
namespace fovea::tasks {

template <class Model>
const nn::Weights& weights_of(const Model& m) {
  return m.weights;
}
template <class... Models>
const nn::Weights& weights_of(const std::variant<Models...>& m) {
  return std::visit([](const auto& one) -> const nn::Weights& { return one.weights; }, m);
}

// The weights that a run kept. The names and shapes that its file says are compared with those of a
// sketch, and memory is foreseen, before any of the data are read.
nn::Weights kept_weights(const RunFolder&, const nn::Weights& sketch);

// make(nn::Weights) → a model. That of a run needs no gradients: nobody writes to it, and many may
// ask it at once.
template <class Make>
auto load_model(const RunFolder& folder, const Make& make) {
  return make(kept_weights(folder, weights_of(make(nn::Weights::sketch()))));
}

}  // namespace fovea::tasks
