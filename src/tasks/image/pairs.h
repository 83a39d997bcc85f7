#pragma once

#include <cstdint>

#include "image/image.h"

namespace fovea::tasks::images {

// Two small marks far apart, on grainy paper; class 1 where they are of the same colour. Neither
// mark says anything by itself: who answers has compared them.
inline constexpr int64_t kPairSide = 48, kFarApart = 30;
// A function of (seed, i) alone.
image::LabelledImage draw_pair(uint64_t seed, uint64_t i);

}  // namespace fovea::tasks::images
