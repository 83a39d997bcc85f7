#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "image/image.h"
#include "text/messages.h"

namespace fovea::image {

// To which size images are brought as they are read (resize.h's fitted()).
struct Fit {
  int64_t height = 64, width = 64, channels = 3;
};

Image fitted(const Image&, const Fit&);
Image read_fitted(const std::filesystem::path&, const Fit&);

// Told of the first few images that cannot be read, and of how many there were.
using Warn = std::function<void(const std::string&)>;
Warn keep_in(std::vector<std::string>& lines);  // which must outlive it

// Throws where all of them are broken; otherwise tells how many were left out, if any.
class BrokenImages {
 public:
  explicit BrokenImages(Warn warn) : warn_(std::move(warn)) {}
  // Runs what reads one; false where it throws.
  bool read(const std::function<void()>&);
  void finish(const std::string& where) const;

 private:
  Warn warn_;
  text::FirstFew broken_;  // what was wrong
  int64_t read_ = 0;
};

// A folder for each class, its name the class's; PNG and JPEG files anywhere below it. In the order
// of their names. Other files are passed by; folders without an image that can be read are no
// classes, and told of.
LabelledImages read_class_folders(const std::filesystem::path&, const Fit&, const Warn& = {});

// How many images there are, without reading them.
int64_t count_images(const std::filesystem::path&);

}  // namespace fovea::image
