#pragma once

#include <cstdint>

#include "image/image.h"

namespace fovea::image {

inline constexpr std::int64_t kDigitSide = 28;

// A digit as a hand might write it, white on black, 28 × 28 with a margin, as MNIST's are: strokes
// whose points, width, slant and proportions vary. The class is the digit. A function of the seed
// and the index alone.
LabelledImage draw_digit(std::uint64_t seed, std::uint64_t index);
LabelledImages draw_digits(std::uint64_t seed, std::int64_t count);

}  // namespace fovea::image
