#include "train/gradient_sum.h"

namespace fovea::train {

Tensors taken_gradients(const Tensors& of) {
  Tensors gradients;
  for (const auto& [name, tensor] : of) {
    if (const Tensor g = tensor.grad()) gradients.emplace(name, g.contiguous());
    Tensor(tensor).zero_grad();
  }
  return gradients;
}

}  // namespace fovea::train
