#include "models/screen.h"

namespace fovea::models {
namespace {

// W as a screen is made of, and looked up with.
kernels::Matrix matrix_of(const nn::Linear& layer) {
  const Tensor& w = layer.weight;
  return {raw(w), w.size(0), w.size(1), w.strides()[0], number_of(w.dtype())};
}

}  // namespace

bool OutputScreen::Source::is(const Tensor& t) const {
  if (!t) return data == nullptr;
  return data == raw(t) && storage.lock() == t.impl()->storage && version == t.version();
}

OutputScreen::Source OutputScreen::source_of(const Tensor& t) {
  if (!t) return {};
  return {t.impl()->storage, t.version(), raw(t)};
}

std::shared_ptr<const kernels::Screen> OutputScreen::of(const nn::Linear& layer) {
  const std::lock_guard lock(mutex_);
  if (weight_.is(layer.weight) && bias_.is(layer.bias)) return screen_;
  screen_ = nullptr;
  weight_ = source_of(layer.weight);
  bias_ = source_of(layer.bias);
  if (layer.weight.device() != Device::cpu) return nullptr;
  if (layer.weight.strides()[1] != 1 || (layer.bias && !layer.bias.is_contiguous())) return nullptr;
  const float* bias = layer.bias ? raw(layer.bias) : nullptr;
  if (std::optional<kernels::Screen> made = kernels::make_screen(matrix_of(layer), bias)) {
    screen_ = std::make_shared<const kernels::Screen>(std::move(*made));
  }
  return screen_;
}

ScreenedOutput::ScreenedOutput(const std::shared_ptr<OutputScreen>& screen, const nn::Linear& layer,
                               int64_t rows)
    : layer_(layer) {
  constexpr int64_t kRows = 3, kFewest = 1024, kSmallest = 1 << 20;
  const int64_t V = layer.weight.size(0);
  if (screen && layer.weight.dtype() != DType::i8 && layer.weight.device() == Device::cpu &&
      rows <= kRows && V >= kFewest && layer.weight.numel() >= kSmallest) {
    screen_ = screen->of(layer);
  }
}

std::optional<Generator::Likeliest> ScreenedOutput::likeliest(
    const float* x, std::span<const int64_t> never) const {
  if (!screen_) return std::nullopt;
  const auto c = kernels::choose(*screen_, matrix_of(layer_), x, never);
  if (!c) return std::nullopt;
  return Generator::Likeliest{c->row, static_cast<double>(c->logit) - c->log_sum};
}

}  // namespace fovea::models
