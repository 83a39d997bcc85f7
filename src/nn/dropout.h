#pragma once

#include "core/random.h"
#include "fovea/layers.h"
#include "fovea/ops.h"

namespace fovea::nn {

// Each place of a model has its own noise: dropped(x, drop.at("readout")).
struct Dropout {
  float probability = 0.0f;
  Seed seed;

  Dropout() = default;
  Dropout(float p, Seed s) : probability(p), seed(s) {}
  Dropout(const Noise& n) : probability(n.dropout), seed(n.seed) {}  // NOLINT: the same, in public
  template <class Place>
  Dropout at(Place place) const {
    return {probability, seed.at(place)};
  }
  Noise noise() const { return {probability, seed.value()}; }
};

inline Tensor dropped(const Tensor& x, const Dropout& d) {
  return dropout(x, d.probability, d.seed.value());
}

}  // namespace fovea::nn
