#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include "fovea/attention.h"
#include "fovea/io.h"

namespace fovea::app {

struct AttendOptions {
  std::filesystem::path in, out;
  std::string score = "scaled_dot", mask = "everything", weighting = "softmax", plan = "automatic";
  std::optional<float> scale, softcap;
  float temperature = 1.0f, dropout = 0.0f;
  int64_t seed = 0, top = 0;
  int threads = 0;
  bool weights = false, lse = false, entropy = false, grad = false, renormalise = false;
};

// The tensors of the input file, and which of them the choice made use of.
struct Inputs {
  Tensors tensors;
  std::set<std::string> used;

  Tensor find(const std::string& name);     // undefined when absent
  Tensor require(const std::string& name);  // throws when absent
};

// From names to a mechanism, its parameters taken from the file. options.score becomes the name of
// the score that was taken.
Attention choose(AttendOptions& options, Inputs&);

}  // namespace fovea::app
