#pragma once

#include "tasks/reproduce.h"

namespace fovea::tasks {

extern const Paper kBahdanau2015;
extern const Paper kLuong2015;

double score_of(const train::Scores&, const std::string& name);  // NaN where absent

// A mean with the half-width of its 95 % interval over seeds (t distribution).
struct Interval {
  double mean = 0, half = 0;
  int64_t n = 0;
};
Interval interval_of(const std::vector<double>&);
std::string shown(const Interval&);  // "61.2 ± 1.3"

}  // namespace fovea::tasks
