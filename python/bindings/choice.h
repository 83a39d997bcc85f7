#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fovea/attention.h"

namespace fovea::python {

// Score, mask and weighting by their names, the numbers beside them, and which tensors come with a
// call, in which order. Made once, used for any number of calls.
struct ChoiceNames {
  std::string score, mask, weighting;
  std::vector<std::string> parameters;
};
struct ChoiceNumbers {
  std::optional<float> scale, softcap;
  float temperature = 1.0f, dropout = 0.0f;
  std::string plan = "automatic";
};

class Choice {
 public:
  Choice(const ChoiceNames&, const ChoiceNumbers&);

  Attention with(const std::vector<Tensor>& parameters, uint64_t seed) const;
  const std::vector<std::string>& parameters() const { return names_; }
  bool hard() const { return hard_; }
  Plan plan() const { return plan_; }

 private:
  enum class Place : uint8_t { score, mask, weighting, bias, distance_bias };

  Attention bare_;
  std::vector<std::string> names_;
  std::vector<Place> places_;  // of each parameter
  bool hard_ = false;
  Plan plan_ = Plan::automatic;
};

}  // namespace fovea::python
