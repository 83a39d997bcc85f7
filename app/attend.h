#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fovea/attention.h"
#include "fovea/io.h"
#include "report/heatmap.h"
#include "tasks/fields.h"

namespace fovea::app {

struct AttendOptions final : tasks::Settings {
  std::filesystem::path in, out, picture;
  std::string words;
  std::string score = "scaled_dot", mask = "everything", weighting = "softmax", plan = "automatic";
  std::optional<float> scale, softcap, sink;
  float temperature = 1.0f, dropout = 0.0f;
  int64_t seed = 0, top = 0, threads = 0;
  bool weights = false, lse = false, entropy = false, grad = false, renormalise = false;
  bool show = false;

  void visit(tasks::Fields&) override;  // the numbers
};

// The tensors of the input file, and which of them the choice made use of.
struct Inputs {
  Tensors tensors;
  std::set<std::string> used;
  std::map<std::string, DType> halves;  // those that the file has in 16 bits

  Tensor find(const std::string& name);       // undefined when absent
  Tensor require(const std::string& name);    // throws when absent
  Tensor as_stored(const std::string& name);  // the same, in as many bits
};

// From names to a mechanism, its parameters taken from the file. options.score becomes the name of
// the score that was taken.
Attention choose(AttendOptions& options, Inputs&);

// Words in place of a file: q, k and v are a vector a word, and what the choice learns is as a
// model starts it.
std::vector<std::string> words_in(const std::string& typed);
Tensors inputs_of(const std::vector<std::string>& words, const AttendOptions&);

// A map for each head of each sequence, labelled by the words where there are any.
std::vector<report::Picture> maps_of(const std::string& how, const Tensor& weights,
                                     const std::vector<std::string>& words);

}  // namespace fovea::app
