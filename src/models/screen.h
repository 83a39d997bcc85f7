#pragma once

#include <memory>
#include <mutex>

#include "fovea/nn.h"
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

// W as a screen is made of, and looked up with.
kernels::Matrix matrix_of(const nn::Linear&);

}  // namespace fovea::models
