#pragma once

#include <string>
#include <vector>

#include "tasks/task.h"

// What a model is made of, and what flows from where to where: a graph of its parts, in the order
// of the flow. Parts are found by the names of the model's tensors.
namespace fovea::tasks {

struct ModelPart {
  std::string name;                // "encoder.0": what the names of its tensors begin with
  std::string title, about;        // for people
  std::vector<std::string> reads;  // names of other parts
  std::vector<std::string> looks;  // layers of attention in it, by their names: "encoder.0.self"
  Tensors tensors = {};
  int64_t numbers() const;  // in all of them
};

std::vector<ModelPart> parts_of(const Run&);

// A matrix to look at: of one that is larger than most × most, the number of each part whose size
// is largest, with its sign. A vector is a row; what has more dimensions, rows of what the first
// one counts.
struct MatrixSeen {
  int64_t rows = 0, columns = 0;  // of the matrix
  std::vector<std::string> row_names, column_names;
  std::vector<float> weights;
  double mean = 0, deviation = 0, least = 0, largest = 0, norm = 0;
};
MatrixSeen seen_of(const Tensor&, int64_t most);
report::Picture picture_of(const std::string& title, const MatrixSeen&);

}  // namespace fovea::tasks
