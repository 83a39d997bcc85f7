#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "tasks/caption/caption.h"
#include "tasks/opened/opened.h"

namespace fovea::tasks::captions {

// A model that sees, which somebody else trained and nobody trains here: ViT or DeiT. Its patches
// are the places of an image, what its last block says of them their features. Opened when it is
// first asked.
class Seer {
 public:
  explicit Seer(std::string model) : model_(std::move(model)) {}
  Shape shape() const;                                   // [features, rows, columns]
  Tensor operator()(const image::Image& picture) const;  // of that shape

 private:
  const opened::Opened& opened() const;
  std::string model_;
  mutable std::once_flag once_;
  mutable std::optional<opened::Opened> opened_;
};

// Makes the model's shape that of the seer's places.
void suit_seer(CaptionConfig&, const Seer&);
// What it makes of an image's pixels.
void see(const CaptionConfig&, const Seer&, CaptionedImage&);

// RUN's own file of what the seer made of its images.
inline constexpr const char* kSeenFile = "places.safetensors";
void save_seen(const CaptionSets&, const std::string& file);

}  // namespace fovea::tasks::captions
