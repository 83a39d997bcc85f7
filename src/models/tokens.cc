#include "models/tokens.h"

#include "fovea/ops.h"
#include "tensor/linear.h"

namespace fovea::models {

Tensor places_of(const Tensor& targets, int64_t padding) {
  const std::vector<int64_t> ids = targets.to_ids();
  std::vector<int64_t> places;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] != padding) places.push_back(static_cast<int64_t>(i));
  }
  return Tensor::from_ids(places, {static_cast<int64_t>(places.size())});
}

Losses losses_of(const nn::Linear& output) {
  return [output](const Tensor& rows, const Tensor& targets, const CrossEntropy& how) {
    return linear_cross_entropy(rows, {output.weight, output.bias}, targets, how);
  };
}

Loss token_loss(const Tensor& x, const Tensor& targets, const Losses& losses, float label_smoothing,
                int64_t padding) {
  const Tensor places = places_of(targets, padding);
  const int64_t tokens = places.numel(), all = targets.numel();
  Tensor rows = x.reshape({all, x.size(-1)}), those = targets.reshape({all});
  if (tokens < all) {
    rows = index_select(rows, 0, places);
    those = index_select(those, 0, places);
  }
  Loss result{.tokens = tokens};
  result.loss = losses(rows, those, {.label_smoothing = label_smoothing});
  result.nll = static_cast<double>(result.loss.item()) * static_cast<double>(tokens);
  return result;
}

}  // namespace fovea::models
