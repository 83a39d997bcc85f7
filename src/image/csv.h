#pragma once

#include <filesystem>
#include <string>

#include "image/image.h"
#include "text/lines.h"

namespace fovea::image {

// Square grey images, one a line: the values of its pixels row by row, and its class, a whole
// number from 0 on, in a column of its own. White is 1, 16 or 255, the smallest that no value
// exceeds. Values are separated by commas, semicolons or tabs; a first line may name the columns.
// Gzip too; what does not fit throws with its line.
struct CsvImages : LabelledImages {
  std::string class_column;  // where the classes were: with it, other lines are read alike
};

// Which column is the class: "first", "last", its number from 1, or its name. Where none is asked
// for, the one that a first line calls label, class, target, digit or y; or else the first or the
// last, if what they hold tells which: throws where it does not.
CsvImages parse_csv(text::LineReader, const std::string& class_column = {});
CsvImages read_csv(const std::filesystem::path&, const std::string& class_column = {});

}  // namespace fovea::image
