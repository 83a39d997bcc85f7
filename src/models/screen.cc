#include "models/screen.h"

#include <optional>

namespace fovea::models {

bool OutputScreen::Source::is(const Tensor& t) const {
  if (!t) return data == nullptr;
  return data == raw(t) && storage.lock() == t.impl()->storage && version == t.version();
}

OutputScreen::Source OutputScreen::source_of(const Tensor& t) {
  if (!t) return {};
  return {t.impl()->storage, t.version(), raw(t)};
}

kernels::Matrix matrix_of(const nn::Linear& layer) {
  const Tensor& w = layer.weight;
  return {raw(w), w.size(0), w.size(1), w.strides()[0]};
}

std::shared_ptr<const kernels::Screen> OutputScreen::of(const nn::Linear& layer) {
  const std::lock_guard lock(mutex_);
  if (weight_.is(layer.weight) && bias_.is(layer.bias)) return screen_;
  screen_ = nullptr;
  weight_ = source_of(layer.weight);
  bias_ = source_of(layer.bias);
  if (layer.weight.strides()[1] != 1 || (layer.bias && !layer.bias.is_contiguous())) return nullptr;
  const float* bias = layer.bias ? raw(layer.bias) : nullptr;
  if (std::optional<kernels::Screen> made = kernels::make_screen(matrix_of(layer), bias)) {
    screen_ = std::make_shared<const kernels::Screen>(std::move(*made));
  }
  return screen_;
}

}  // namespace fovea::models
