#pragma once

#include <filesystem>

#include "image/image.h"
#include "text/lines.h"

namespace fovea::image {

// Square grey images, one a line: the values of its pixels row by row, and its class, a whole
// number from 0 on. The class stands last, or where a first line with names says "label" or
// "class". White is 1, 16 or 255, the smallest that no value exceeds. Gzip too; what does not fit
// throws with its line.
LabelledImages parse_csv(text::Lines);
LabelledImages read_csv(const std::filesystem::path&);

}  // namespace fovea::image
