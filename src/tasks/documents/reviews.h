#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/labelled.h"

// Reviews made up on the spot: positive or negative by a sentence or two about the film itself,
// among sentences that say nothing and others that praise or damn something else. A "not" turns a
// word around. Review i is a function of (seed, i) alone.
namespace fovea::tasks::classification {

struct Review {
  text::Labelled document;
  std::vector<bool> decides;  // by sentence
};
Review write_review(uint64_t seed, uint64_t i);

}  // namespace fovea::tasks::classification
