#pragma once

#include <span>
#include <string>

#include "fovea/io.h"
#include "tasks/caption/caption.h"

// What another network made of images, in place of a convolution that is trained: a safetensors
// file with [F,Y,X] for each image, F numbers at each of Y × X places, called by the image's name.
namespace fovea::tasks::captions {

// Makes the model's shape that of the file, whose tensors must all have one.
void suit_places(CaptionConfig&, const std::string& file);

// The file for images other than the training's: the one asked for, or where none is, the
// training's. Throws where one is asked for and the model has learned from pixels.
std::string places_file(const CaptionConfig&, const std::string& asked);

// Those of some images. "/data/train/a.jpg" is looked for by that name, by "data/train/a.jpg",
// "train/a.jpg", and "a.jpg".
class Places {
 public:
  Places() = default;  // of none
  Places(const CaptionConfig&, const std::string& file, std::span<const std::string> images);
  // Throws, with what was looked for.
  Tensor of(const std::string& image) const;

 private:
  std::string file_;
  Tensors found_;
};

}  // namespace fovea::tasks::captions
