#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "fovea/nn.h"
#include "fovea/search.h"
#include "kernels/screen.h"
#include "tensor/impl.h"

namespace fovea::models {

// The screen of an output layer: made when first asked for, and again when the layer has changed.
class OutputScreen {
 public:
  // Null where the layer has none. May be called from many threads.
  std::shared_ptr<const kernels::Screen> of(const nn::Linear&);

 private:
  // Of which values it was made. A storage that is gone is none, whatever lies there now.
  struct Source {
    std::weak_ptr<Storage> storage;
    uint64_t version = 0;
    const float* data = nullptr;
    bool is(const Tensor&) const;
  };
  static Source source_of(const Tensor&);

  std::mutex mutex_;
  Source weight_, bias_;
  std::shared_ptr<const kernels::Screen> screen_;
};

// An output layer as greedy search asks it, by a screen where that is less work: a screen reads a
// quarter of the layer, and for each row again.
class ScreenedOutput {
 public:
  ScreenedOutput() = default;  // never
  ScreenedOutput(const std::shared_ptr<OutputScreen>&, const nn::Linear&, int64_t rows);
  // Of a row [W] of what the layer is given; none: it takes the whole product.
  std::optional<Generator::Likeliest> likeliest(const float* x,
                                                std::span<const int64_t> never) const;

 private:
  nn::Linear layer_;
  std::shared_ptr<const kernels::Screen> screen_;
};

}  // namespace fovea::models
