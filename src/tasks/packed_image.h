#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fovea/tensor.h"
#include "image/class_folders.h"
#include "image/image.h"

namespace fovea::tasks {

// An image of a known size in a byte for each number: what a data set is kept in.
using PackedImage = std::vector<uint8_t>;
PackedImage packed(const image::Image&);
image::Image unpacked(const PackedImage&, const image::Fit&);
// Values from 0 to 1, [B,C,height,width].
Tensor tensor_of(std::span<const PackedImage* const>, const image::Fit&);

}  // namespace fovea::tasks
